"""Bound flows, and requests for their runs."""

from __future__ import annotations

from fastapi import APIRouter

from tidemill.app import inspection
from tidemill.runtime.inspect.status import read_status
from tidemill.runtime.runs.requests import request_flow_run
from tidemill.server.dependencies import AS_FLOW_OPERATOR, AS_VIEWER, FlowName, Mill, Wake
from tidemill.server.error_handlers import build_responses
from tidemill.wire import explain_schemas, schemas

router = APIRouter(tags=["flows"], responses=build_responses(404))


@router.get("/flows", dependencies=AS_VIEWER)
def list_flows(mill: Mill) -> schemas.FlowListDocument:
    """List the bound flows with their tasks, the channels that these read and write, and their last runs."""
    return schemas.FlowListDocument.build(flows=read_status(mill.catalog).flows)


@router.get("/flows/{name}", dependencies=AS_VIEWER)
def get_flow(mill: Mill, name: FlowName) -> schemas.FlowDetailsDocument:
    """Show one bound flow."""
    return schemas.FlowDetailsDocument.build(flow=inspection.find_flow_status(mill.catalog, name))


@router.get("/flows/{name}/explain", dependencies=AS_VIEWER)
def explain_flow(mill: Mill, name: FlowName) -> explain_schemas.ExplanationListDocument:
    """Show how each table that a flow writes is refreshed, and what a run would do now."""
    tables = inspection.list_written_tables(mill.catalog, name)
    return explain_schemas.ExplanationListDocument.build(flow=name, tables=[mill.explain(table) for table in tables])


@router.post("/flows/{name}/runs", status_code=202, responses=build_responses(409), dependencies=AS_FLOW_OPERATOR)
def request_run(mill: Mill, wake: Wake, name: FlowName, backfill: bool = False) -> schemas.RunDocument:
    """Request a run of a flow; a server executes it as soon as possible, a backfill on a separate track."""
    requested = request_flow_run(mill.catalog, name, backfill=backfill)
    wake()
    return schemas.RunDocument.model_validate(requested)
