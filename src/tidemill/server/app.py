"""The assembly of a project's HTTP API."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from tidemill import __version__
from tidemill.app.settings import read_fields
from tidemill.app.sources import build_subscriptions
from tidemill.app.wiring import Tidemill
from tidemill.errors import TidemillError
from tidemill.runtime.runs.insert_batcher import InsertAnswer, InsertBatcher, InsertRequest
from tidemill.server.access import AccessControl, Throttle
from tidemill.server.authentication import ApiAuthentication
from tidemill.server.batching import BatchSize, RequestBatcher
from tidemill.server.dependencies import ApiOptions
from tidemill.server.error_handlers import COMMON_STATUSES, ErrorResponder, build_response_references, build_responses
from tidemill.server.feed import PAGE_SIZE, EventFeed
from tidemill.server.page_authentication import PageAuthentication
from tidemill.server.request_guard import RequestGuard
from tidemill.server.routes import (
    accounts,
    blocks,
    channels,
    dispatching,
    events,
    insert,
    maintenance,
    oneshot,
    push,
    runs,
    status,
    subscribe,
    websub,
    workflows,
)
from tidemill.server.shared_blocks import SharedBlocks
from tidemill.server.upload import BodyLimit, MemoryBudget

PREFIX = "/api/v1"

ROUTERS: tuple[APIRouter, ...] = (
    channels.router,
    insert.router,
    push.router,
    subscribe.router,
    runs.flows,
    runs.router,
    blocks.router,
    events.router,
    status.router,
    maintenance.router,
    dispatching.router,
    workflows.router,
    dispatching.triggers,
    oneshot.submissions,
    oneshot.history,
    oneshot.datasets,
    accounts.caller_router,
    accounts.router,
)


def build_api(
    mill: Tidemill,
    access: AccessControl,
    options: ApiOptions = ApiOptions(),  # noqa: B008 - a frozen value
    *,
    wake: Callable[[], None] = lambda: None,
) -> FastAPI:
    """The API of an open project. `wake` is called when something may have become due."""
    responder = ErrorResponder(mill.directory, mill.redactor)
    app = FastAPI(
        title="Tidemill",
        version=__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # its page loads scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
        middleware=[  # the first is the outermost
            Middleware(RequestGuard, names=options.allowed_hosts, responder=responder),
            Middleware(PageAuthentication, access=access),
            Middleware(ApiAuthentication, access=access),
            Middleware(BodyLimit, limit=options.max_body_bytes, timeout=options.body_timeout),
        ],
    )
    for kind in (TidemillError, RequestValidationError, WebSocketRequestValidationError, HTTPException):
        app.add_exception_handler(kind, responder.handle_error)
    for router in ROUTERS:
        app.include_router(router, prefix=PREFIX, responses=build_responses(*COMMON_STATUSES))
    app.include_router(events.streams, prefix=PREFIX, responses=build_response_references(400, *COMMON_STATUSES))
    app.include_router(websub.router)
    app.include_router(status.health, prefix=PREFIX)
    app.include_router(status.health, include_in_schema=False)  # the usual path for probes
    app.state.mill, app.state.access, app.state.options, app.state.wake = mill, access, options, wake
    app.state.memory_budget, app.state.error_responder = MemoryBudget(options.memory_bytes), responder
    app.state.insert_batcher = RequestBatcher(
        partial(_insert_all, mill.insert_batcher, lambda: app.state.wake()),
        BatchSize(options.max_rows, options.max_bytes),
    )
    app.state.feed = EventFeed(
        lambda after: mill.catalog.events.list(after=after, limit=PAGE_SIZE), options.poll_interval
    )
    app.state.heads = RequestBatcher(lambda names: _read_heads(mill, names))
    app.state.blocks = SharedBlocks(mill.catalog.blocks, mill.store.open_file)
    app.state.subscriptions = build_subscriptions(mill.settings.sources)
    app.state.is_stopping = False  # True: streams must end
    return app


def _read_heads(mill: Tidemill, names: Sequence[str]) -> list[int]:
    """Read each channel once, regardless of the number of its subscribers."""
    heads = {name: mill.catalog.channels.read(name).head.seq for name in set(names)}
    return [heads[name] for name in names]


def _insert_all(
    gatherer: InsertBatcher, wake: Callable[[], None], inserts: Sequence[InsertRequest]
) -> list[InsertAnswer]:
    answers = gatherer.insert_all(inserts)
    wake()
    return answers


def build_access(mill: Tidemill) -> AccessControl:
    api_settings = mill.settings.api
    throttle = Throttle(time.monotonic, max_failures=api_settings.max_failed_logins)
    return AccessControl(
        mill.catalog.accounts,
        enabled=api_settings.requires_token,
        admits_all=api_settings.authentication is False,
        throttle=throttle,
    )


def build_application(mill: Tidemill, access: AccessControl, wake: Callable[[], None]) -> FastAPI:
    """`wake` is called when something may have become due."""
    options = read_fields(ApiOptions, mill.settings.api, mill.settings.push)
    return build_api(mill, access, ApiOptions(**options), wake=wake)
