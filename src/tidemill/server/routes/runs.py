"""Runs: what was executed, stopping one, and trying one again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tidemill import documents
from tidemill.catalog.pages import page_of_runs
from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.model.run import RunKind, RunState
from tidemill.runtime.asking import ask_again
from tidemill.server.declared import answers
from tidemill.server.doors import Mill, Wake, needs, runs_workflow
from tidemill.server.parameters import Before, Limit, Number, OfSubject
from tidemill.wire import shapes

router = APIRouter(tags=["runs"])
_VIEWER = [needs(Role.VIEWER)]
_OPERATOR = [needs(Role.OPERATOR, of=runs_workflow)]


@router.get("/runs", response_model=shapes.Runs, dependencies=_VIEWER)
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
    return {"runs": [documents.run(r) for r in found]}


@router.get("/runs/{run}", response_model=shapes.RunDetails, responses=answers(404), dependencies=_VIEWER)
def run(mill: Mill, run: Number) -> Json:
    """Show one run: what it read and wrote, and its log."""
    catalog = mill.catalog
    return {
        "run": documents.run(catalog.run(run)),
        "reads": [documents.reading(r) for r in catalog.readings(run)],
        "blocks": [documents.block(b) for b in catalog.written(run)],
        "log": catalog.log(run),
    }


@router.get("/runs/{run}/log", response_model=shapes.RunLog, responses=answers(404), dependencies=_VIEWER)
def log(mill: Mill, run: Number) -> Json:
    """Show what all attempts at a run said, in their order."""
    return {"run": run, "log": mill.catalog.log(run)}


@router.post("/runs/{run}/kill", response_model=shapes.Run, responses=answers(404, 409), dependencies=_OPERATOR)
def kill(mill: Mill, run: Number) -> Json:
    """Stop a run that is ready or running; nothing of it becomes visible."""
    return documents.run(mill.kill(run))


@router.post(
    "/runs/{run}/retry",
    status_code=202,
    response_model=shapes.Run,
    responses=answers(404, 409),
    dependencies=_OPERATOR,
)
def retry(mill: Mill, wake: Wake, run: Number) -> Json:
    """Ask for a new run in place of one that failed or was killed."""
    asked = ask_again(mill.catalog, run)
    wake()
    return documents.run(asked)
