"""What is the same on every page: the bar with the ways to the others, who looks, and light or dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from nicegui import ui

from tidemill.ui.context import PageContext
from tidemill.ui.elements import ActionButton, HtmlText, add_box, add_link

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
def open_frame(desk: PageContext, here: str, title: str) -> Iterator[None]:
    """A page's surroundings; its content is made inside."""
    ui.page_title(f"{title} · Tidemill")
    with add_box("bar", "header"):
        add_link("Skip to content", "#content", "skip")
        add_link("Tidemill", "/", "brand")
        _add_navigation(here)
        with add_box("bar-end"):
            if name := desk.get_viewer().name:
                HtmlText(name, classes="muted")
            _add_theme_button()
    with add_box("content") as content:
        content.props["id"] = "content"
        _add_trouble_banner(desk)
        yield


def _add_navigation(here: str) -> None:
    with add_box("ways", "nav") as nav:
        nav.props["aria-label"] = "Pages"
        for name, href in PAGES:
            way = add_link(name, href, "way")
            if href == here:
                way.props["aria-current"] = "page"


def _add_theme_button() -> None:
    """A button that goes through the themes. The choice lives in a cookie, which the browser alone writes."""
    chosen = ui.context.client.request.cookies.get(COOKIE, "auto")
    names = list(THEMES)
    dark = ui.dark_mode(THEMES.get(chosen))
    shown = ActionButton(f"Theme: {chosen if chosen in THEMES else 'auto'}", lambda: change_theme(), "quiet")
    shown.props["title"] = "Light, dark, or as the system says"

    async def change_theme() -> None:
        following = names[(names.index(shown.text.removeprefix("Theme: ")) + 1) % len(names)]
        kept = f"document.cookie = '{COOKIE}={following}; path=/; max-age=31536000; samesite=lax'"
        with suppress(TimeoutError):  # whoever sees the new theme finds it kept, also on the next page
            await ui.run_javascript(kept, timeout=10.0)
        dark.set_value(THEMES[following])
        shown.set_text(f"Theme: {following}")


def _add_trouble_banner(desk: PageContext) -> None:
    """Says so when the catalog cannot be asked, since everything below is old then."""
    banner = HtmlText("", "p", "banner")
    banner.props["role"] = "alert"

    def refresh_banner() -> None:
        banner.set_text(f"The catalog does not answer; what you see is old. {desk.feed.trouble}")
        banner.set_visibility(bool(desk.feed.trouble))

    refresh_banner()
    desk.feed.changed.subscribe(refresh_banner)
