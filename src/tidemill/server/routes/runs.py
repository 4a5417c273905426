"""Runs: what was executed, stopping one, and trying one again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tidemill.app import serialization
from tidemill.catalog.pagination import page_of_runs
from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.model.run import RunKind, RunState
from tidemill.runtime.runs.requests import ask_again
from tidemill.server.dependencies import Before, Limit, Mill, Number, OfSubject, Wake, needs, runs_workflow
from tidemill.server.error_handlers import answers
from tidemill.wire import schemas

router = APIRouter(tags=["runs"])
_VIEWER = [needs(Role.VIEWER)]
_OPERATOR = [needs(Role.OPERATOR, of=runs_workflow)]


@router.get("/runs", response_model=schemas.Runs, dependencies=_VIEWER)
def runs(
    mill: Mill,
    state: Annotated[RunState | None, Query(description="Only in this state.")] = None,
    kind: Annotated[RunKind | None, Query(description="Only of this kind.")] = None,
    subject: OfSubject = None,
    before: Before = None,
    limit: Limit = 20,
) -> Json:
    """List runs, the newest first. The next page begins `before` the last of this one."""
    found = page_of_runs(mill.catalog, state=state, kind=kind, subject=subject, before=before, limit=limit)
    return {"runs": [serialization.run(r) for r in found]}


@router.get("/runs/{run}", response_model=schemas.RunDetails, responses=answers(404), dependencies=_VIEWER)
def run(mill: Mill, run: Number) -> Json:
    """Show one run: what it read and wrote, and its log."""
    catalog = mill.catalog
    return {
        "run": serialization.run(catalog.run(run)),
        "reads": [serialization.reading(r) for r in catalog.readings(run)],
        "blocks": [serialization.block(b) for b in catalog.written(run)],
        "log": catalog.log(run),
    }


@router.get("/runs/{run}/log", response_model=schemas.RunLog, responses=answers(404), dependencies=_VIEWER)
def log(mill: Mill, run: Number) -> Json:
    """Show what all attempts at a run said, in their order."""
    return {"run": run, "log": mill.catalog.log(run)}


@router.post("/runs/{run}/kill", response_model=schemas.Run, responses=answers(404, 409), dependencies=_OPERATOR)
def kill(mill: Mill, run: Number) -> Json:
    """Stop a run that is ready or running; nothing of it becomes visible."""
    return serialization.run(mill.kill(run))


@router.post(
    "/runs/{run}/retry",
    status_code=202,
    response_model=schemas.Run,
    responses=answers(404, 409),
    dependencies=_OPERATOR,
)
def retry(mill: Mill, wake: Wake, run: Number) -> Json:
    """Ask for a new run in place of one that failed or was killed."""
    asked = ask_again(mill.catalog, run)
    wake()
    return serialization.run(asked)
