"""The few elements that pages are made of, and the addresses of pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from tidemill.model.run import Run, RunKind
from tidemill.ui.health import Judgement, Standing


def channel_url(name: str) -> str:
    """
    >>> channel_url("news.tagged")
    '/channels/news.tagged'
    """
    return f"/channels/{quote(name, safe='')}"


def flow_url(name: str) -> str:
    return f"/flows/{quote(name, safe='')}"


def run_url(run: int) -> str:
    return f"/runs/{run}"


def subject_url(run: Run) -> str:
    """What a run is about: a bound flow, or the channel inserted into or compacted; of an action, the run itself."""
    if run.kind is RunKind.ACTION:
        return run_url(run.id)
    return flow_url(run.subject) if run.kind is RunKind.FLOW else channel_url(run.subject)


Act = Callable[[], Awaitable[None]]


class Text(TextElement):
    """Text in an HTML element."""

    def __init__(self, text: object = "", tag: str = "span", classes: str = "") -> None:
        super().__init__(tag=tag, text=str(text))
        self.classes(classes)


class Badge(Text):
    """How something stands: a dot in its colour, and the word."""

    def __init__(self, standing: str) -> None:
        super().__init__(standing, classes=f"badge tone-{standing}")
        self._standing = standing

    def show(self, standing: str) -> None:
        if standing != self._standing:
            self.classes(remove=f"tone-{self._standing}", add=f"tone-{standing}")
            self.set_text(standing)
            self._standing = standing


def box(classes: str = "", tag: str = "div") -> ui.element:
    return ui.element(tag).classes(classes)


def link(text: str, href: str, classes: str = "") -> ui.link:
    return ui.link(text, href).classes(classes)


class Button(Text):
    """Does `act` when it is clicked, but not while it is still at it. It may be given something else to do."""

    def __init__(self, text: str, act: Act, classes: str = "") -> None:
        super().__init__(text, "button", f"button {classes}")
        self.act = act
        self._acting = False
        self.props["type"] = "button"
        self.on("click", lambda _: self._clicked())

    async def _clicked(self) -> None:
        if self._acting:
            return
        self._acting = True
        try:
            await self.act()
        finally:
            self._acting = False


@contextmanager
def section(title: str, note: str = "") -> Iterator[ui.element]:
    """A headed part of a page."""
    with box("section", "section") as made:
        with box("section-head"):
            Text(title, "h2")
            if note:
                Text(note, classes="muted")
        yield made


class Heading:
    """The top of a page about one thing: what it is, its name, how it stands and why, and what can be done to it."""

    def __init__(self, what: str, name: str) -> None:
        with box("heading"):
            Text(what, classes="eyebrow")
            with box("heading-line"):
                Text(name, "h1")
                self._badge = Badge(Standing.FRESH)
                self.actions = box("actions")
            self._why = Text("", "p", "why")

    def show(self, judgement: Judgement | None) -> None:
        self._badge.set_visibility(judgement is not None)
        if judgement is not None:
            self._badge.show(judgement.standing)
            self._why.set_text(judgement.why)


class Facts:
    """Names and values, side by side."""

    def __init__(self, names: Iterable[str]) -> None:
        self._values: dict[str, Text] = {}
        with box("facts", "dl"):
            for name in names:
                with box("fact"):
                    Text(name, "dt")
                    self._values[name] = Text("", "dd")

    def show(self, **values: object) -> None:
        for name, value in values.items():
            self._values[name.replace("_", " ")].set_text(str(value))


class Log:
    """What a program said, line by line, as it is."""

    def __init__(self, nothing: str = "nothing was logged") -> None:
        self._nothing = nothing
        self._text = Text("", "pre", "log")
        self._text.props["tabindex"] = "0"

    def show(self, text: str) -> None:
        self._text.set_text(text.rstrip("\n") or self._nothing)
