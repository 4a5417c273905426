"""The context of every page: the project, the viewer, the frame, and the refreshing of its content."""

import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar
from weakref import WeakKeyDictionary

from fastapi import Request
from nicegui import Client, ui

from tidemill.app.wiring import Tidemill
from tidemill.errors import TidemillError
from tidemill.ui.elements import ActionButton, HtmlText, add_box, add_link, run_off_loop
from tidemill.ui.feed import CatalogFeed
from tidemill.ui.snapshot import ProjectSnapshot
from tidemill.wire.refusals import Forbidden, Unidentified


@dataclass(frozen=True, slots=True)
class Viewer:
    """The viewer of a page, and the viewer's permissions.

    Access to the page itself was checked before: without it, no page is served.
    """

    name: str
    can_act_somewhere: bool  # may run, kill, pause and resume, in at least some workflows
    check_permission: Callable[[str | None], None]  # raises if the viewer may not act in a workflow
    record_action: Callable[[str], AbstractContextManager[None]]  # records the action in the audit log

    def can_act(self, workflow: str | None) -> bool:
        """Whether the viewer may act in a workflow; None: on objects that belong to none."""
        try:
            self.check_permission(workflow)
        except Forbidden:
            return False
        return True


ViewerIdentifier = Callable[[Request], Viewer]
"""Identifies the sender of a request, as it is now; raises `Unidentified` if its token is no longer valid.

It is called again before every refresh and every action, in another thread, because it may read the catalog.
"""

REFRESH_SECONDS = 5.0
"""Seconds after which a page is refreshed although nothing happened: ages grow, and triggers become overdue."""

T = TypeVar("T")
Refresh = Callable[[ProjectSnapshot, float], Awaitable[None]]
"""Shows a state of the project, at this time."""


@dataclass(frozen=True, slots=True)
class PageContext:
    """The open project, its event feed, and the identification of viewers."""

    mill: Tidemill
    feed: CatalogFeed
    identify_viewer: ViewerIdentifier
    logout_path: str
    _viewers: WeakKeyDictionary[Client, Viewer] = field(default_factory=WeakKeyDictionary)

    def get_viewer(self) -> Viewer:
        """The viewer of this page, as `check_viewer` has found it last."""
        return self._viewers[ui.context.client]

    async def check_viewer(self) -> Viewer | None:
        """Identify the viewer again: the present permissions. None: the token is invalid, and the page is left."""
        client = ui.context.client
        try:
            viewer = await run_off_loop(self.identify_viewer, client.request)
        except Unidentified:
            ui.navigate.to(self.logout_path)
            return None
        self._viewers[client] = viewer
        return viewer

    def format_location(self, location: str) -> str:
        """A source location, relative to the project's directory."""
        return location.removeprefix(f"{self.mill.directory}{os.sep}")

    async def find_or_report(self, find: Callable[[], T | None], message: str) -> T | None:
        """The object of a page; None if there is none, which the page then reports."""
        try:
            result = await run_off_loop(find)
            problem = "" if result is not None else message
        except TidemillError as error:
            result, problem = None, self.mill.redactor.summarize(error)
        if problem:
            HtmlText(problem, "p", "banner")
            add_link("Back to the graph", "/")
        return result

    async def keep_refreshing(self, refresh: Refresh) -> Callable[[], Awaitable[None]]:
        """Show something now, and again whenever something happened, some time has passed, or the result is called."""
        view = _LiveView(self, refresh)
        await view.refresh_view()
        self.feed.changed.subscribe(view.refresh_view)
        ui.timer(REFRESH_SECONDS, view.refresh_view, immediate=False)
        return view.refresh_view


class _LiveView:
    """Refreshes one view, never concurrently; a request during a refresh causes another one after it."""

    def __init__(self, context: PageContext, refresh: Refresh) -> None:
        self._context = context
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
            if await self._context.check_viewer() is None:
                return
            snapshot = await self._context.feed.read_snapshot()
            await self._refresh(snapshot, await run_off_loop(self._context.mill.catalog.read_time))
            problem = ""
        except TidemillError as error:
            problem = self._context.mill.redactor.summarize(error)
        self._banner.set_text(problem)
        self._banner.set_visibility(bool(problem))


PAGES = (
    ("Graph", "/"),
    ("Runs", "/runs"),
    ("Freshness", "/freshness"),
    ("History", "/history"),
    ("Storage", "/storage"),
    ("Triggers", "/triggers"),
    ("Servers", "/servers"),
    ("Events", "/events"),
)
ADMIN_PAGES = (("Audit log", "/audit"),)
COOKIE = "tidemill-theme"
THEMES = {"auto": None, "light": False, "dark": True}


@contextmanager
def open_frame(context: PageContext, current_path: str, title: str) -> Iterator[None]:
    """The frame of a page; its content is created inside the context."""
    ui.page_title(f"{title} · Tidemill")
    with add_box("bar", "header"):
        add_link("Skip to content", "#content", "skip")
        add_link("Tidemill", "/", "brand")
        _add_navigation(current_path, (*PAGES, *ADMIN_PAGES) if context.get_viewer().can_act(None) else PAGES)
        with add_box("bar-end"):
            if name := context.get_viewer().name:
                HtmlText(name, classes="muted")
            _add_theme_button()
    with add_box("content") as content:
        content.props["id"] = "content"
        _add_trouble_banner(context)
        yield


def _add_navigation(current_path: str, pages: Sequence[tuple[str, str]]) -> None:
    with add_box("links", "nav") as nav:
        nav.props["aria-label"] = "Pages"
        for name, href in pages:
            link = add_link(name, href, "link")
            if href == current_path:
                link.props["aria-current"] = "page"


def _add_theme_button() -> None:
    """A button that cycles through the themes. The choice is stored in a cookie, which only the browser writes."""
    stored = ui.context.client.request.cookies.get(COOKIE, "auto")
    names = list(THEMES)
    dark = ui.dark_mode(THEMES.get(stored))
    button = ActionButton(f"Theme: {stored if stored in THEMES else 'auto'}", lambda: change_theme(), "quiet")
    button.props["title"] = "Light, dark, or the system's setting"

    async def change_theme() -> None:
        next_theme = names[(names.index(button.text.removeprefix("Theme: ")) + 1) % len(names)]
        script = f"document.cookie = '{COOKIE}={next_theme}; path=/; max-age=31536000; samesite=lax'"
        with suppress(TimeoutError):  # the cookie is set first, so that it also applies to the next page
            await ui.run_javascript(script, timeout=10.0)
        dark.set_value(THEMES[next_theme])
        button.set_text(f"Theme: {next_theme}")


def _add_trouble_banner(context: PageContext) -> None:
    """Warns when the catalog cannot be read, because the page is then out of date."""
    banner = HtmlText("", "p", "banner")
    banner.props["role"] = "alert"

    def refresh_banner() -> None:
        banner.set_text(f"The catalog is unavailable; this page is out of date. {context.feed.problem}")
        banner.set_visibility(bool(context.feed.problem))

    refresh_banner()
    context.feed.changed.subscribe(refresh_banner)
