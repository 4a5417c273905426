"""Runs: their details, killing and retrying them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tidemill.app import serialization
from tidemill.catalog.pagination import list_run_page
from tidemill.model.access import UserRole
from tidemill.model.codec import Json
from tidemill.model.run import RunKind, RunState
from tidemill.runtime.runs.requests import request_retry
from tidemill.server.dependencies import (
    Before,
    Limit,
    Mill,
    Number,
    OfSubject,
    Wake,
    require_role,
    resolve_run_workflow,
)
from tidemill.server.error_handlers import build_responses
from tidemill.wire import schemas

router = APIRouter(tags=["runs"])
_VIEWER = [require_role(UserRole.VIEWER)]
_OPERATOR = [require_role(UserRole.OPERATOR, resolve_workflow=resolve_run_workflow)]


@router.get("/runs", response_model=schemas.RunListDocument, dependencies=_VIEWER)
def list_runs(
    mill: Mill,
    state: Annotated[RunState | None, Query(description="Only in this state.")] = None,
    kind: Annotated[RunKind | None, Query(description="Only of this kind.")] = None,
    subject: OfSubject = None,
    before: Before = None,
    limit: Limit = 20,
) -> Json:
    """List runs, the newest first. The next page begins `before` the last of this one."""
    runs = list_run_page(mill.catalog, state=state, kind=kind, subject=subject, before=before, limit=limit)
    return {"runs": [serialization.serialize_run(r) for r in runs]}


@router.get(
    "/runs/{run}", response_model=schemas.RunDetailsDocument, responses=build_responses(404), dependencies=_VIEWER
)
def get_run(mill: Mill, run: Number) -> Json:
    """Show one run: the blocks that it read and wrote, and its log."""
    catalog = mill.catalog
    return {
        "run": serialization.serialize_run(catalog.read_run(run)),
        "reads": [serialization.serialize_reading(r) for r in catalog.list_run_reads(run)],
        "blocks": [serialization.serialize_block(b) for b in catalog.list_written_blocks(run)],
        "log": catalog.read_log(run),
    }


@router.get(
    "/runs/{run}/log", response_model=schemas.RunLogDocument, responses=build_responses(404), dependencies=_VIEWER
)
def get_log(mill: Mill, run: Number) -> Json:
    """Show the log of all attempts at a run, in order."""
    return {"run": run, "log": mill.catalog.read_log(run)}


@router.post(
    "/runs/{run}/kill", response_model=schemas.RunDocument, responses=build_responses(404, 409), dependencies=_OPERATOR
)
def kill_run(mill: Mill, run: Number) -> Json:
    """Kill a run that is ready or running; none of its results become visible."""
    return serialization.serialize_run(mill.kill(run))


@router.post(
    "/runs/{run}/retry",
    status_code=202,
    response_model=schemas.RunDocument,
    responses=build_responses(404, 409),
    dependencies=_OPERATOR,
)
def retry_run(mill: Mill, wake: Wake, run: Number) -> Json:
    """Request a new run in place of one that failed or was killed."""
    requested = request_retry(mill.catalog, run)
    wake()
    return serialization.serialize_run(requested)
