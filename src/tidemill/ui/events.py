"""`/events`: what happened, as it happens."""

from __future__ import annotations

from collections.abc import Iterable

from nicegui import ui

from tidemill.ports.records import Event
from tidemill.ui import rows
from tidemill.ui.context import Desk, off_loop
from tidemill.ui.elements import Text, section
from tidemill.ui.page_frame import frame
from tidemill.ui.table import Table

SHOWN = 100


async def events(desk: Desk) -> None:
    with frame(desk, "/events", "Events"):
        Text("Events", "h1")
        with section("Newest first", "every transition in the catalog leaves one"):
            wanted = ui.input("Filter", placeholder="run.failed, a name, a run …").classes("filter")
            wanted.props("outlined dense clearable debounce=200")
            table = Table("Events", rows.EVENT, empty="no such event among the newest")

        async def show() -> None:
            now = await off_loop(desk.mill.catalog.now)
            table.show([rows.of_event(e, now) for e in matching(desk.feed.events, wanted.value or "")])

        wanted.on_value_change(lambda _: show())
        await desk.keep(show)


def matching(known: Iterable[Event], wanted: str) -> list[Event]:
    """The newest events in which each of the words wanted occurs."""
    words = wanted.lower().split()
    found = (e for e in reversed(list(known)) if all(w in _text(e) for w in words))
    return [e for e, _ in zip(found, range(SHOWN), strict=False)]


def _text(event: Event) -> str:
    run = "" if event.run is None else f"run {event.run}"
    return f"{event.kind} {event.subject} {run} {event.detail}".lower()
