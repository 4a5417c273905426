"""The frame of every page: navigation, the viewer's name, and the theme."""

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
def open_frame(context: PageContext, current_path: str, title: str) -> Iterator[None]:
    """The frame of a page; its content is created inside the context."""
    ui.page_title(f"{title} · Tidemill")
    with add_box("bar", "header"):
        add_link("Skip to content", "#content", "skip")
        add_link("Tidemill", "/", "brand")
        _add_navigation(current_path)
        with add_box("bar-end"):
            if name := context.get_viewer().name:
                HtmlText(name, classes="muted")
            _add_theme_button()
    with add_box("content") as content:
        content.props["id"] = "content"
        _add_trouble_banner(context)
        yield


def _add_navigation(current_path: str) -> None:
    with add_box("links", "nav") as nav:
        nav.props["aria-label"] = "Pages"
        for name, href in PAGES:
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
        with suppress(
            TimeoutError
        ):  # the cookie is set before the theme changes, so that it also applies to the next page
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
