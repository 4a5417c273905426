"""The HTTP API of one project, put together."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from tidemill import __version__
from tidemill.app import Tidemill
from tidemill.errors import TidemillError
from tidemill.server.access import Access
from tidemill.server.answers import Answers
from tidemill.server.batches import Batches
from tidemill.server.bodies import SmallBodies
from tidemill.server.declared import ANYWHERE, answers, referred
from tidemill.server.feed import PAGE, Feed
from tidemill.server.gate import Gate
from tidemill.server.guard import Guard
from tidemill.server.identify import Identify
from tidemill.server.options import Options
from tidemill.server.routes import (
    accounts,
    blocks,
    channels,
    dispatching,
    events,
    flows,
    insert,
    runs,
    status,
    triggers,
    workflows,
)

PREFIX = "/api/v1"

ROUTERS: tuple[APIRouter, ...] = (
    channels.router,
    insert.router,
    flows.router,
    runs.router,
    blocks.router,
    events.router,
    status.router,
    dispatching.router,
    workflows.router,
    triggers.router,
    accounts.mine,
    accounts.router,
)


def api(
    mill: Tidemill,
    access: Access,
    options: Options = Options(),  # noqa: B008 - a frozen value
    *,
    wake: Callable[[], None] = lambda: None,
) -> FastAPI:
    """The API of an open project. `wake` is called when something may have become due."""
    telling = Answers(mill.directory)
    app = FastAPI(
        title="Tidemill",
        version=__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        middleware=[  # the first is the outermost
            Middleware(Guard, names=options.names, answers=telling),
            Middleware(Gate, access=access),
            Middleware(Identify, access=access),
            Middleware(SmallBodies, limit=options.body),
        ],
    )
    for kind in (TidemillError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, telling.handle)
    for router in ROUTERS:
        app.include_router(router, prefix=PREFIX, responses=answers(*ANYWHERE))
    app.include_router(events.streams, prefix=PREFIX, responses=referred(*ANYWHERE))
    app.include_router(status.health, prefix=PREFIX)
    app.include_router(status.health, include_in_schema=False)  # where probes look first
    app.state.mill, app.state.access, app.state.options, app.state.wake = mill, access, options, wake
    app.state.small = Batches(mill.gatherer.insert)
    app.state.feed = Feed(lambda after: mill.catalog.events(after=after, limit=PAGE), options.look)
    app.state.ending = False  # true: streams shall come to their end
    return app
