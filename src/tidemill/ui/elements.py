"""The basic elements of pages, and the URLs of pages."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from nicegui import run, ui
from nicegui.elements.mixins.text_element import TextElement

from tidemill.display.table import Action
from tidemill.ui.health import HealthState, HealthVerdict


class HtmlText(TextElement):
    def __init__(self, text: object = "", tag: str = "span", classes: str = "") -> None:
        super().__init__(tag=tag, text=str(text))
        self.classes(classes)


class StateBadge(HtmlText):
    """A state: a coloured dot and its name."""

    def __init__(self, state: str) -> None:
        super().__init__(state, classes=f"badge tone-{state}")
        self._shown_state = state

    def show_state(self, state: str) -> None:
        if state != self._shown_state:
            self.classes(remove=f"tone-{self._shown_state}", add=f"tone-{state}")
            self.set_text(state)
            self._shown_state = state


def add_box(classes: str = "", tag: str = "div") -> ui.element:
    return ui.element(tag).classes(classes)


def add_link(text: str, href: str, classes: str = "") -> ui.link:
    return ui.link(text, href).classes(classes)


class ActionButton(HtmlText):
    """Calls `action` when it is clicked, unless a previous call is still running. `action` may be replaced."""

    def __init__(self, text: str, action: Action, classes: str = "") -> None:
        super().__init__(text, "button", f"button {classes}")
        self.action = action
        self._busy = False
        self.props["type"] = "button"
        self.on("click", lambda _: self._handle_click())

    async def _handle_click(self) -> None:
        if self._busy:
            return
        self._busy = True
        try:
            await self.action()
        finally:
            self._busy = False


@contextmanager
def add_section(title: str, note: str = "") -> Iterator[ui.element]:
    """A headed part of a page."""
    with add_box("section", "section") as section:
        with add_box("section-head"):
            HtmlText(title, "h2")
            if note:
                HtmlText(note, classes="muted")
        yield section


def add_choices(label: str, choices: Iterable[tuple[str, str, bool]]) -> None:
    """Links to the alternatives of a page: text, URL, and whether it is the current one."""
    with add_box("choices", "nav") as nav:
        nav.props["aria-label"] = label
        for text, href, is_current in choices:
            link = add_link(text, href)
            if is_current:
                link.props["aria-current"] = "true"


class PageHeading:
    """The top of a page about one object: its kind, its name, its health and the reason, and its actions."""

    def __init__(self, kind: str, name: str) -> None:
        with add_box("heading"):
            HtmlText(kind, classes="eyebrow")
            with add_box("heading-line"):
                HtmlText(name, "h1")
                self._badge = StateBadge(HealthState.FRESH)
                self.actions = add_box("actions")
            self._reason = HtmlText("", "p", "why")

    def show_health(self, verdict: HealthVerdict | None) -> None:
        self._badge.set_visibility(verdict is not None)
        if verdict is not None:
            self._badge.show_state(verdict.state)
            self._reason.set_text(verdict.reason)


class FactList:
    """Names and values, side by side."""

    def __init__(self) -> None:
        self._values: dict[str, HtmlText] = {}
        self._list = add_box("facts", "dl")

    def show_values(self, **values: object) -> None:
        for name, value in values.items():
            if name not in self._values:
                with self._list, add_box("fact"):
                    HtmlText(name.replace("_", " "), "dt")
                    self._values[name] = HtmlText("", "dd")
            self._values[name].set_text("–" if value is None else str(value))


class LogView:
    """A program's log, line by line."""

    def __init__(self) -> None:
        self._text = HtmlText("", "pre", "log")
        self._text.props["tabindex"] = "0"

    def show_text(self, text: str) -> None:
        self._text.set_text(text.rstrip("\n") or "nothing was logged")


P = ParamSpec("P")
R = TypeVar("R")


async def run_off_loop(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run blocking work in a thread. It is cancelled when the server stops."""
    result = await run.io_bound(lambda: (work(*args, **kwargs),))
    if result is None:  # NiceGUI before version 4 returns None when it is stopping
        raise asyncio.CancelledError
    return result[0]
