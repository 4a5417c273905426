"""The context of every page: the project, the viewer, and blocking work done beside the event loop."""

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
"""Seconds after which a page is shown anew though nothing happened: ages grow, and triggers become overdue."""

T = TypeVar("T")
Show = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PageContext:
    """The open project, what happens in it, and who looks."""

    mill: Tidemill
    feed: CatalogFeed
    who: Who

    def get_viewer(self) -> Viewer:
        """Whoever looks at the page at hand."""
        return self.who(ui.context.client.request)

    def format_location(self, location: str) -> str:
        """Where something is declared, as whoever stands in the project's directory names it."""
        return location.removeprefix(f"{self.mill.directory}{os.sep}")

    async def find_or_report(self, look: Callable[[], T | None], otherwise: str) -> T | None:
        """What a page is about, or None, and then the page says so."""
        try:
            seen = await run_off_loop(look)
            said = "" if seen is not None else otherwise
        except TidemillError as error:
            seen, said = None, str(error)
        if said:
            HtmlText(said, "p", "banner")
            add_link("Back to the graph", "/")
        return seen

    async def keep_refreshing(self, show: Show) -> None:
        """Show something now, and again whenever something happened or some time has passed."""
        kept = _LiveView(show)
        await kept.refresh_view()
        self.feed.changed.subscribe(kept.refresh_view)
        ui.timer(PATIENCE, kept.refresh_view, immediate=False)


class _LiveView:
    """Shows one thing, never twice at the same time; what comes meanwhile is shown after."""

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
            said = ""
        except TidemillError as error:
            said = str(error)
        self._trouble.set_text(said)
        self._trouble.set_visibility(bool(said))
