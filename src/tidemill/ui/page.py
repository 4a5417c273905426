"""The one door of this room: `mount` puts the pages onto a FastAPI application."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui

from tidemill.app.wiring import Tidemill
from tidemill.model.run import RunState
from tidemill.retention.usage_history import Resolution, Split
from tidemill.runtime.freshness.staleness import Measure
from tidemill.ui.channel import channel
from tidemill.ui.context import Desk
from tidemill.ui.events import events
from tidemill.ui.feed import Feed
from tidemill.ui.flow import flow
from tidemill.ui.freshness import freshness
from tidemill.ui.history import Asked, history
from tidemill.ui.home import home
from tidemill.ui.policy import Policy
from tidemill.ui.run import run
from tidemill.ui.runs import runs
from tidemill.ui.storage import storage
from tidemill.ui.triggers import servers, triggers
from tidemill.ui.viewer import Who, anyone

FAVICON = (
    '<svg viewBox="0 0 32 32" xmlns="http://www.w3.org/2000/svg"><rect width="32" height="32" rx="7" fill="#0a6c86"/>'
    '<path d="M5 20q5.500-5 11 0t11 0M5 13q5.500-5 11 0t11 0" fill="none" stroke="#fff" stroke-width="2.500"/></svg>'
)
STYLE = Path(__file__).with_name("style.css")
PATIENCE = 30.0
"""Seconds in which a page must have been read from the catalog."""


def mount(app: FastAPI, mill: Tidemill, who: Who = anyone) -> None:
    """Serve the web page of an open project at `/`, to whomever `who` does not turn away.

    It takes every path that no route of `app` has, so mount it last; and once a process, for NiceGUI is one a process.
    Pages bring their own Content-Security-Policy; what else guards them (`who`, a login) must also guard the paths
    below `/_nicegui_ws`, by which they stay live.
    """
    desk = Desk(mill, Feed(mill.catalog), who)
    nicegui_app.on_startup(desk.feed.start)
    ui.add_css(STYLE, shared=True)
    _register(desk)
    nicegui_app.add_middleware(Policy)
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


def _register(desk: Desk) -> None:
    @ui.page("/", response_timeout=PATIENCE)
    async def _home(states: bool = False) -> None:
        await home(desk, states=states)

    @ui.page("/channels/{name}", response_timeout=PATIENCE)
    async def _channel(name: str) -> None:
        await channel(desk, name)

    @ui.page("/flows/{name}", response_timeout=PATIENCE)
    async def _flow(name: str) -> None:
        await flow(desk, name)

    @ui.page("/runs", response_timeout=PATIENCE)
    async def _runs(state: RunState | None = None) -> None:
        await runs(desk, state)

    @ui.page("/runs/{number}", response_timeout=PATIENCE)
    async def _run(number: int) -> None:
        await run(desk, number)

    @ui.page("/freshness", response_timeout=PATIENCE)
    async def _freshness(measure: Measure = Measure.STALENESS) -> None:
        await freshness(desk, measure)

    @ui.page("/history", response_timeout=PATIENCE)
    async def _history(
        by: Resolution = Resolution.HOUR,
        per: Split | None = None,
        user: str | None = None,
        workflow: str | None = None,
        task: str | None = None,
    ) -> None:
        await history(desk, Asked(by, per, user, workflow, task))

    @ui.page("/storage", response_timeout=PATIENCE)
    async def _storage() -> None:
        await storage(desk)

    @ui.page("/triggers", response_timeout=PATIENCE)
    async def _triggers() -> None:
        await triggers(desk)

    @ui.page("/servers", response_timeout=PATIENCE)
    async def _servers() -> None:
        await servers(desk)

    @ui.page("/events", response_timeout=PATIENCE)
    async def _events() -> None:
        await events(desk)
