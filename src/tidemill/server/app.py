"""The HTTP API of one project, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from tidemill import __version__
from tidemill.app.sources import subscriptions
from tidemill.app.wiring import Tidemill
from tidemill.errors import TidemillError
from tidemill.runtime.runs.insert_batcher import Answer, Gatherer, Wanted
from tidemill.server.access import Access
from tidemill.server.authentication import Identify
from tidemill.server.batching import Batches, Size
from tidemill.server.body_limit import Room, SmallBodies
from tidemill.server.error_handlers import ANYWHERE, Answers, answers, referred
from tidemill.server.feed import PAGE, Feed
from tidemill.server.options import Options
from tidemill.server.page_authentication import Gate
from tidemill.server.request_guard import Guard
from tidemill.server.routes import (
    accounts,
    blocks,
    channels,
    dispatching,
    events,
    flows,
    follow,
    history,
    insert,
    push,
    runs,
    status,
    storing,
    submissions,
    triggers,
    websub,
    workflows,
)

PREFIX = "/api/v1"

ROUTERS: tuple[APIRouter, ...] = (
    channels.router,
    insert.router,
    push.router,
    follow.router,
    flows.router,
    runs.router,
    blocks.router,
    events.router,
    status.router,
    dispatching.router,
    workflows.router,
    triggers.router,
    submissions.router,
    history.router,
    storing.router,
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
    for kind in (TidemillError, RequestValidationError, WebSocketRequestValidationError, HTTPException):
        app.add_exception_handler(kind, telling.handle)
    for router in ROUTERS:
        app.include_router(router, prefix=PREFIX, responses=answers(*ANYWHERE))
    app.include_router(events.streams, prefix=PREFIX, responses=referred(*ANYWHERE))
    app.include_router(websub.router)
    app.include_router(status.health, prefix=PREFIX)
    app.include_router(status.health, include_in_schema=False)  # where probes look first
    app.state.mill, app.state.access, app.state.options, app.state.wake = mill, access, options, wake
    app.state.room, app.state.answers = Room(options.memory), telling
    app.state.small = Batches(
        partial(_inserted, mill.gatherer, lambda: app.state.wake()), Size(options.rows, options.bytes)
    )
    app.state.feed = Feed(lambda after: mill.catalog.events(after=after, limit=PAGE), options.look)
    app.state.heads = Batches(lambda names: _heads(mill, names))
    app.state.subscriptions = subscriptions(mill.settings.sources)
    app.state.ending = False  # true: streams shall come to their end
    return app


def _heads(mill: Tidemill, names: Sequence[str]) -> list[int]:
    """One question for each channel, however many follow it."""
    heads = {name: mill.catalog.channel(name).head.seq for name in set(names)}
    return [heads[name] for name in names]


def _inserted(gatherer: Gatherer, wake: Callable[[], None], wanted: Sequence[Wanted]) -> list[Answer]:
    answers = gatherer.insert(wanted)
    wake()
    return answers
