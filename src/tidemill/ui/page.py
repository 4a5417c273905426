"""The entry point of this package: `mount_pages` adds the pages to a FastAPI application."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui

from tidemill.app.wiring import Tidemill
from tidemill.model.run import RunState
from tidemill.retention.usage_history import TimeResolution, UsageSplit
from tidemill.runtime.freshness.staleness import StalenessMeasure
from tidemill.ui.channel import show_channel
from tidemill.ui.context import PageContext
from tidemill.ui.events import show_events
from tidemill.ui.feed import CatalogFeed
from tidemill.ui.flow import show_flow
from tidemill.ui.freshness import show_freshness
from tidemill.ui.history import HistoryQuery, show_history
from tidemill.ui.home import show_home
from tidemill.ui.policy import ContentSecurityPolicy
from tidemill.ui.run import show_run
from tidemill.ui.runs import show_runs
from tidemill.ui.storage import show_storage
from tidemill.ui.triggers import show_servers, show_triggers
from tidemill.ui.viewer import ViewerIdentifier, accept_anyone

FAVICON = (
    '<svg viewBox="0 0 32 32" xmlns="http://www.w3.org/2000/svg"><rect width="32" height="32" rx="7" fill="#0a6c86"/>'
    '<path d="M5 20q5.500-5 11 0t11 0M5 13q5.500-5 11 0t11 0" fill="none" stroke="#fff" stroke-width="2.500"/></svg>'
)
STYLE = Path(__file__).with_name("style.css")
RESPONSE_TIMEOUT_SECONDS = 30.0
"""Seconds within which a page must have been built."""


def mount_pages(app: FastAPI, mill: Tidemill, identify_viewer: ViewerIdentifier = accept_anyone) -> None:
    """Serve the web pages of an open project at `/`, to all viewers that `identify_viewer` accepts.

    They take every path that no route of `app` has, so mount them last, and once per process, because NiceGUI is a
    singleton. Pages have their own Content-Security-Policy; other protection (`identify_viewer`, a login) must also
    cover the paths below `/_nicegui_ws`, through which they are updated.
    """
    desk = PageContext(mill, CatalogFeed(mill.catalog), identify_viewer)
    nicegui_app.on_startup(desk.feed.start)
    ui.add_css(STYLE, shared=True)
    _register_pages(desk)
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


def _register_pages(context: PageContext) -> None:
    @ui.page("/", response_timeout=RESPONSE_TIMEOUT_SECONDS)
    async def _serve_home(states: bool = False) -> None:
        await show_home(context, states=states)

    @ui.page("/channels/{name}", response_timeout=RESPONSE_TIMEOUT_SECONDS)
    async def _serve_channel(name: str) -> None:
        await show_channel(context, name)

    @ui.page("/flows/{name}", response_timeout=RESPONSE_TIMEOUT_SECONDS)
    async def _serve_flow(name: str) -> None:
        await show_flow(context, name)

    @ui.page("/runs", response_timeout=RESPONSE_TIMEOUT_SECONDS)
    async def _serve_runs(state: RunState | None = None) -> None:
        await show_runs(context, state)

    @ui.page("/runs/{number}", response_timeout=RESPONSE_TIMEOUT_SECONDS)
    async def _serve_run(number: int) -> None:
        await show_run(context, number)

    @ui.page("/freshness", response_timeout=RESPONSE_TIMEOUT_SECONDS)
    async def _serve_freshness(measure: StalenessMeasure = StalenessMeasure.STALENESS) -> None:
        await show_freshness(context, measure)

    @ui.page("/history", response_timeout=RESPONSE_TIMEOUT_SECONDS)
    async def _serve_history(
        by: TimeResolution = TimeResolution.HOUR,
        per: UsageSplit | None = None,
        user: str | None = None,
        workflow: str | None = None,
        task: str | None = None,
    ) -> None:
        await show_history(context, HistoryQuery(by, per, user, workflow, task))

    @ui.page("/storage", response_timeout=RESPONSE_TIMEOUT_SECONDS)
    async def _serve_storage() -> None:
        await show_storage(context)

    @ui.page("/triggers", response_timeout=RESPONSE_TIMEOUT_SECONDS)
    async def _serve_triggers() -> None:
        await show_triggers(context)

    @ui.page("/servers", response_timeout=RESPONSE_TIMEOUT_SECONDS)
    async def _serve_servers() -> None:
        await show_servers(context)

    @ui.page("/events", response_timeout=RESPONSE_TIMEOUT_SECONDS)
    async def _serve_events() -> None:
        await show_events(context)
