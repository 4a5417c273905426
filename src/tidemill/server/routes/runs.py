"""Bound flows, and their runs: details, requests, killing and retrying."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query

from tidemill.app import inspection
from tidemill.model.run import RunKind, RunState
from tidemill.runtime.inspect.status import read_status
from tidemill.runtime.runs.requests import find_run_workflow, request_flow_run, request_retry
from tidemill.server import dependencies as deps
from tidemill.server.error_handlers import build_responses
from tidemill.wire import explain_schemas, schemas

flows = APIRouter(tags=["flows"], responses=build_responses(404))


@flows.get("/flows", dependencies=deps.AS_VIEWER)
def list_flows(mill: deps.Mill) -> schemas.FlowListDocument:
    """List the bound flows with their tasks, the channels that these read and write, and their last runs."""
    return schemas.FlowListDocument.build(flows=read_status(mill.catalog).flows)


@flows.get("/flows/{name}", dependencies=deps.AS_VIEWER)
def get_flow(mill: deps.Mill, name: deps.FlowName) -> schemas.FlowDetailsDocument:
    """Show one bound flow."""
    return schemas.FlowDetailsDocument.build(flow=inspection.find_flow_status(mill.catalog, name))


@flows.get("/flows/{name}/explain", dependencies=deps.AS_VIEWER)
def explain_flow(mill: deps.Mill, name: deps.FlowName) -> explain_schemas.ExplanationListDocument:
    """Show how each table that a flow writes is refreshed, and what a run would do now."""
    tables = inspection.list_written_tables(mill.catalog, name)
    return explain_schemas.ExplanationListDocument.build(flow=name, tables=[mill.explain(table) for table in tables])


@flows.post("/flows/{name}/runs", status_code=202, responses=build_responses(409), dependencies=deps.AS_FLOW_OPERATOR)
def request_run(mill: deps.Mill, wake: deps.Wake, name: deps.FlowName, backfill: bool = False) -> schemas.RunDocument:
    """Request a run of a flow; a server executes it as soon as possible, a backfill on a separate track."""
    requested = request_flow_run(mill.catalog, name, backfill=backfill)
    wake()
    return schemas.RunDocument.model_validate(requested)


router = APIRouter(tags=["runs"])


@router.get("/runs", dependencies=deps.AS_VIEWER)
def list_runs(
    mill: deps.Mill,
    state: Annotated[RunState | None, Query(description="Only in this state.")] = None,
    kind: Annotated[RunKind | None, Query(description="Only of this kind.")] = None,
    subject: deps.OfSubject = None,
    before: deps.Before = None,
    limit: deps.Limit = 20,
) -> schemas.RunListDocument:
    """List runs, the newest first. The next page begins `before` the last of this one."""
    runs = mill.catalog.runs.list(state=state, kind=kind, subject=subject, before=before, limit=limit)
    return schemas.RunListDocument.build(runs=runs)


@router.get("/runs/{run}", responses=build_responses(404), dependencies=deps.AS_VIEWER)
def get_run(
    mill: deps.Mill, access: deps.TheAccess, caller: deps.TheCaller, run: deps.Number
) -> schemas.RunDetailsDocument:
    """Show one run: the blocks that it read and wrote; and its log, to callers who may act on it."""
    details = inspection.read_run_details(mill.catalog, run)
    is_visible = access.can_operate(caller, partial(find_run_workflow, mill.catalog, run))
    return details if is_visible else details.model_copy(update={"log": None})


@router.get("/runs/{run}/log", responses=build_responses(404), dependencies=deps.AS_VIEWER)
def get_log(
    mill: deps.Mill, access: deps.TheAccess, caller: deps.TheCaller, run: deps.Number
) -> schemas.RunLogDocument:
    """Show the log of all attempts at a run, in order; null to callers who may not act on the run."""
    log = mill.catalog.runs.read_log(run)
    is_visible = access.can_operate(caller, partial(find_run_workflow, mill.catalog, run))
    return schemas.RunLogDocument(run=run, log=log if is_visible else None)


@router.post("/runs/{run}/kill", responses=build_responses(404, 409), dependencies=deps.AS_RUN_OPERATOR)
def kill_run(mill: deps.Mill, run: deps.Number) -> schemas.RunDocument:
    """Kill a run that is ready or running; none of its results become visible."""
    return schemas.RunDocument.model_validate(mill.catalog.runs.kill(run))


@router.post(
    "/runs/{run}/retry", status_code=202, responses=build_responses(404, 409), dependencies=deps.AS_RUN_OPERATOR
)
def retry_run(mill: deps.Mill, wake: deps.Wake, run: deps.Number) -> schemas.RunDocument:
    """Request a new run in place of one that failed or was killed."""
    requested = request_retry(mill.catalog, run)
    wake()
    return schemas.RunDocument.model_validate(requested)
