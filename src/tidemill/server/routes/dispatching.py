"""Which of the runs that are due go first, what that is decided by, and the same figures for monitoring."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from tidemill.app.wiring import Tidemill
from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.runtime.inspect.metrics import exposition
from tidemill.runtime.inspect.statistics import statistics as figures
from tidemill.runtime.inspect.status import status
from tidemill.runtime.maintenance.service import is_paused
from tidemill.server.dependencies import Mill, Wake, needs
from tidemill.server.error_handlers import answers
from tidemill.wire import server_schemas

router = APIRouter(tags=["dispatching"])
_VIEWER = [needs(Role.VIEWER)]


@router.get("/statistics", response_model=server_schemas.Statistics, dependencies=_VIEWER)
def statistics(mill: Mill) -> Json:
    """Show for each task what a run costs, how much it makes of what it reads, its rates, and what waits for it."""
    return {"tasks": [asdict(s) for s in figures(mill.catalog, status(mill.catalog))]}


@router.get("/dispatching", response_model=server_schemas.Dispatching, dependencies=_VIEWER)
def dispatching(mill: Mill) -> Json:
    """Show how servers choose what runs first."""
    return _way(mill)


@router.put(
    "/dispatching", response_model=server_schemas.Dispatching, responses=answers(422), dependencies=[needs(Role.ADMIN)]
)
def dispatch(mill: Mill, wake: Wake, wish: server_schemas.DispatchingWish) -> Json:
    """Change how all servers choose; what is left out, or null, goes back to each server's settings."""
    wanted = wish.model_dump()
    mill.way.wishing({name: value for name, value in wanted.items() if value is not None})
    mill.catalog.wish(wanted)
    wake()
    return _way(mill)


@router.get("/metrics", response_class=PlainTextResponse, dependencies=_VIEWER)
def metrics(mill: Mill) -> Response:
    """The figures of tasks, tables and runs, in the text format that Prometheus reads."""
    found = status(mill.catalog)
    paused = is_paused(mill.catalog)
    text = exposition(found, figures(mill.catalog, found), mill.history(), mill.catalog.now(), paused=paused)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


def _way(mill: Tidemill) -> Json:
    wished = mill.way.concerned(mill.catalog.wished())
    return asdict(mill.way.wishing(wished)) | {"wished": wished}
