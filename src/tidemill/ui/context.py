"""The context of every page: the project, the viewer, and the refreshing of its content."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from nicegui import ui

from tidemill.app.wiring import Tidemill
from tidemill.errors import TidemillError
from tidemill.ui.elements import HtmlText, add_link, run_off_loop
from tidemill.ui.feed import CatalogFeed
from tidemill.ui.viewer import Viewer, Who

PATIENCE = 5.0
"""Seconds after which a page is refreshed although nothing happened: ages grow, and triggers become overdue."""

T = TypeVar("T")
Show = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PageContext:
    """The open project, its event feed, and the identification of viewers."""

    mill: Tidemill
    feed: CatalogFeed
    who: Who

    def get_viewer(self) -> Viewer:
        """The viewer of the current page."""
        return self.who(ui.context.client.request)

    def format_location(self, location: str) -> str:
        """A source location, relative to the project's directory."""
        return location.removeprefix(f"{self.mill.directory}{os.sep}")

    async def find_or_report(self, look: Callable[[], T | None], otherwise: str) -> T | None:
        """The object of a page; None if there is none, which the page then reports."""
        try:
            result = await run_off_loop(look)
            problem = "" if result is not None else otherwise
        except TidemillError as error:
            result, problem = None, str(error)
        if problem:
            HtmlText(problem, "p", "banner")
            add_link("Back to the graph", "/")
        return result

    async def keep_refreshing(self, show: Show) -> None:
        """Show something now, and again whenever something happened or some time has passed."""
        view = _LiveView(show)
        await view.refresh_view()
        self.feed.changed.subscribe(view.refresh_view)
        ui.timer(PATIENCE, view.refresh_view, immediate=False)


class _LiveView:
    """Refreshes one view, never concurrently; a request during a refresh causes another one after it."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._showing = self._wanted = False
        self._trouble = HtmlText("", "p", "banner")
        self._trouble.props["role"] = "alert"

    async def refresh_view(self) -> None:
        self._wanted = True
        if self._showing:
            return
        self._showing = True
        try:
            while self._wanted:
                self._wanted = False
                await self._refresh_once()
        finally:
            self._showing = False

    async def _refresh_once(self) -> None:
        try:
            await self._show()
            problem = ""
        except TidemillError as error:
            problem = str(error)
        self._trouble.set_text(problem)
        self._trouble.set_visibility(bool(problem))
