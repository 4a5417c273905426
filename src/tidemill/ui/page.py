"""The entry point of this package: `mount_pages` adds the pages to a FastAPI application."""

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import core, ui
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Scope

from tidemill.app.wiring import Tidemill
from tidemill.ui.audit import show_audit
from tidemill.ui.block import show_block
from tidemill.ui.channel import show_channel
from tidemill.ui.context import PageContext, ViewerIdentifier
from tidemill.ui.events import show_events
from tidemill.ui.feed import CatalogFeed
from tidemill.ui.flow import show_flow
from tidemill.ui.freshness import show_freshness
from tidemill.ui.history import show_history
from tidemill.ui.home import show_home
from tidemill.ui.policy import ContentSecurityPolicy
from tidemill.ui.runs import show_run, show_runs
from tidemill.ui.storage import show_storage
from tidemill.ui.triggers import show_servers, show_triggers

FAVICON = (
    '<svg viewBox="0 0 32 32" xmlns="http://www.w3.org/2000/svg"><rect width="32" height="32" rx="7" fill="#0a6c86"/>'
    '<path d="M5 20q5.500-5 11 0t11 0M5 13q5.500-5 11 0t11 0" fill="none" stroke="#fff" stroke-width="2.500"/></svg>'
)
STYLE = Path(__file__).with_name("style.css")
RESPONSE_TIMEOUT_SECONDS = 30.0
"""Seconds within which a page must have been built."""
PAGES: Mapping[str, Callable[..., Awaitable[None]]] = {
    "/": show_home,
    "/channels/{name}": show_channel,
    "/blocks/{number}": show_block,
    "/flows/{name}": show_flow,
    "/runs": show_runs,
    "/runs/{number}": show_run,
    "/freshness": show_freshness,
    "/history": show_history,
    "/storage": show_storage,
    "/triggers": show_triggers,
    "/servers": show_servers,
    "/events": show_events,
    "/audit": show_audit,
}


def mount_pages(
    app: FastAPI, mill: Tidemill, identify_viewer: ViewerIdentifier, *, api_prefix: str, logout_path: str
) -> None:
    """Serve the web pages of an open project at `/`, to all viewers that `identify_viewer` accepts.

    They take every path that no route of `app` has, but for those with `api_prefix`. So mount them last, and once per
    process, because NiceGUI is a singleton. Pages have their own Content-Security-Policy; other protection
    (`identify_viewer`, a login) must also cover the paths below `/_nicegui_ws`, through which they are updated. A page
    whose viewer may no longer see it goes to `logout_path`.
    """
    desk = PageContext(mill, CatalogFeed(mill.catalog), identify_viewer, logout_path)
    nicegui_app.on_startup(desk.feed.start)
    ui.add_css(STYLE, shared=True)
    for path, show in PAGES.items():
        _register_page(desk, path, show)
    nicegui_app.add_middleware(ContentSecurityPolicy)
    ui.run_with(
        app,
        title="Tidemill",
        favicon=FAVICON,
        dark=None,
        language="en-US",
        tailwind=False,
        show_welcome_message=False,
        reconnect_timeout=10.0,
    )
    core.sio.eio.cors_allowed_origins = is_own_origin
    mounted = app.router.routes.pop()
    assert isinstance(mounted, Mount)
    app.router.routes.append(_PageMount(mounted.path, mounted.app, api_prefix=api_prefix))


class _PageMount(Mount):
    """The pages, at every path but those of the API: a wrong path or method there has an answer of the API."""

    def __init__(self, path: str, app: ASGIApp, *, api_prefix: str) -> None:
        super().__init__(path, app)
        self._api_prefix = api_prefix

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.NONE, {}) if scope["path"].startswith(self._api_prefix) else super().matches(scope)


def is_own_origin(origin: str | None, environ: Mapping[str, Any]) -> bool:
    """Whether a page of this server opens the connection, which is updated through it.

    The scheme is not compared: a proxy may terminate TLS.

    >>> is_own_origin("https://mill:1", {"HTTP_HOST": "mill:1"}), is_own_origin("https://x", {"HTTP_HOST": "mill"})
    (True, False)
    """
    return origin is None or urlsplit(origin).netloc.lower() == str(environ.get("HTTP_HOST", "")).lower()


def _register_page(context: PageContext, path: str, show: Callable[..., Awaitable[None]]) -> None:
    """Serve the page that `show` builds; its parameters after the context are those of the path and the query."""
    declared = signature(show, eval_str=True)

    @wraps(show)
    async def serve_page(**parameters: Any) -> None:
        if await context.check_viewer() is not None:
            await show(context, **parameters)

    serve_page.__signature__ = declared.replace(  # type: ignore[attr-defined]
        parameters=list(declared.parameters.values())[1:]
    )
    ui.page(path, response_timeout=RESPONSE_TIMEOUT_SECONDS)(serve_page)
