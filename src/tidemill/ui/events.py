"""`/events`: events, as they happen."""

from collections.abc import Iterable

from nicegui import ui

from tidemill.display import columns
from tidemill.ports.records import Event
from tidemill.ui.context import PageContext, open_frame
from tidemill.ui.elements import HtmlText, add_section
from tidemill.ui.snapshot import ProjectSnapshot
from tidemill.ui.table import ValueTable

MAX_EVENTS = 100


async def show_events(context: PageContext) -> None:
    with open_frame(context, "/events", "Events"):
        HtmlText("Events", "h1")
        with add_section("Newest first", "one for every transition in the catalog"):
            filter_input = ui.input("Filter", placeholder="run.failed, a name, a run …").classes("filter")
            filter_input.props("outlined dense clearable debounce=200")
            table = ValueTable("Events", columns.EVENT, empty="no such event among the newest")

        async def refresh_table(_snapshot: ProjectSnapshot, now: float) -> None:
            table.show_values(find_matching_events(context.feed.events, filter_input.value or ""), now)

        refresh = await context.keep_refreshing(refresh_table)
        filter_input.on_value_change(lambda _: refresh())


def find_matching_events(events: Iterable[Event], query: str) -> list[Event]:
    """The newest events that contain all words of the filter."""
    words = query.lower().split()
    matching = (e for e in reversed(list(events)) if all(w in _format_search_text(e) for w in words))
    return [e for e, _ in zip(matching, range(MAX_EVENTS), strict=False)]


def _format_search_text(event: Event) -> str:
    run = "" if event.run is None else f"run {event.run}"
    return f"{event.kind} {event.subject} {run} {event.detail}".lower()
