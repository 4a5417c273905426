"""What is the same on every page: the bar with the ways to the others, who looks, and light or dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from nicegui import ui

from tidemill.ui.context import Desk
from tidemill.ui.elements import Button, Text, box, link

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
COOKIE = "tidemill-theme"
THEMES = {"auto": None, "light": False, "dark": True}


@contextmanager
def frame(desk: Desk, here: str, title: str) -> Iterator[None]:
    """A page's surroundings; its content is made inside."""
    ui.page_title(f"{title} · Tidemill")
    with box("bar", "header"):
        link("Skip to content", "#content", "skip")
        link("Tidemill", "/", "brand")
        _ways(here)
        with box("bar-end"):
            if name := desk.viewer().name:
                Text(name, classes="muted")
            _theme()
    with box("content") as content:
        content.props["id"] = "content"
        _trouble(desk)
        yield


def _ways(here: str) -> None:
    with box("ways", "nav") as nav:
        nav.props["aria-label"] = "Pages"
        for name, href in PAGES:
            way = link(name, href, "way")
            if href == here:
                way.props["aria-current"] = "page"


def _theme() -> None:
    """A button that goes through the themes. The choice lives in a cookie, which the browser alone writes."""
    chosen = ui.context.client.request.cookies.get(COOKIE, "auto")
    names = list(THEMES)
    dark = ui.dark_mode(THEMES.get(chosen))
    shown = Button(f"Theme: {chosen if chosen in THEMES else 'auto'}", lambda: change(), "quiet")
    shown.props["title"] = "Light, dark, or as the system says"

    async def change() -> None:
        following = names[(names.index(shown.text.removeprefix("Theme: ")) + 1) % len(names)]
        kept = f"document.cookie = '{COOKIE}={following}; path=/; max-age=31536000; samesite=lax'"
        with suppress(TimeoutError):  # whoever sees the new theme finds it kept, also on the next page
            await ui.run_javascript(kept, timeout=10.0)
        dark.set_value(THEMES[following])
        shown.set_text(f"Theme: {following}")


def _trouble(desk: Desk) -> None:
    """Says so when the catalog cannot be asked, since everything below is old then."""
    banner = Text("", "p", "banner")
    banner.props["role"] = "alert"

    def show() -> None:
        banner.set_text(f"The catalog does not answer; what you see is old. {desk.feed.trouble}")
        banner.set_visibility(bool(desk.feed.trouble))

    show()
    desk.feed.changed.subscribe(show)
