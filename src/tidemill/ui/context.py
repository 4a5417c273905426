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
from tidemill.ui.viewer import Viewer, ViewerIdentifier

REFRESH_SECONDS = 5.0
"""Seconds after which a page is refreshed although nothing happened: ages grow, and triggers become overdue."""

T = TypeVar("T")
Refresh = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PageContext:
    """The open project, its event feed, and the identification of viewers."""

    mill: Tidemill
    feed: CatalogFeed
    identify_viewer: ViewerIdentifier

    def get_viewer(self) -> Viewer:
        """The viewer of the current page."""
        return self.identify_viewer(ui.context.client.request)

    def format_location(self, location: str) -> str:
        """A source location, relative to the project's directory."""
        return location.removeprefix(f"{self.mill.directory}{os.sep}")

    async def find_or_report(self, find: Callable[[], T | None], message: str) -> T | None:
        """The object of a page; None if there is none, which the page then reports."""
        try:
            result = await run_off_loop(find)
            problem = "" if result is not None else message
        except TidemillError as error:
            result, problem = None, str(error)
        if problem:
            HtmlText(problem, "p", "banner")
            add_link("Back to the graph", "/")
        return result

    async def keep_refreshing(self, refresh: Refresh) -> None:
        """Show something now, and again whenever something happened or some time has passed."""
        view = _LiveView(refresh)
        await view.refresh_view()
        self.feed.changed.subscribe(view.refresh_view)
        ui.timer(REFRESH_SECONDS, view.refresh_view, immediate=False)


class _LiveView:
    """Refreshes one view, never concurrently; a request during a refresh causes another one after it."""

    def __init__(self, refresh: Refresh) -> None:
        self._refresh = refresh
        self._refreshing = self._requested = False
        self._banner = HtmlText("", "p", "banner")
        self._banner.props["role"] = "alert"

    async def refresh_view(self) -> None:
        self._requested = True
        if self._refreshing:
            return
        self._refreshing = True
        try:
            while self._requested:
                self._requested = False
                await self._refresh_once()
        finally:
            self._refreshing = False

    async def _refresh_once(self) -> None:
        try:
            await self._refresh()
            problem = ""
        except TidemillError as error:
            problem = str(error)
        self._banner.set_text(problem)
        self._banner.set_visibility(bool(problem))
