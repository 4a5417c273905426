"""Running sums over windows are the sums of their events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stream.test_windows import UNITS, Drawn, entry, events_of, streams

from tidemill.model.window import Extent, Unit, Window
from tidemill.stream.windows.operator import WindowQueues
from tidemill.stream.windows.totals import WindowTotals


class CountingValues(dict[int, tuple[int, int]]):
    """Values that count their reads."""

    reads = 0

    def __getitem__(self, event: int) -> tuple[int, int]:
        self.reads += 1
        return super().__getitem__(event)


@pytest.mark.parametrize("units", UNITS, ids=lambda u: f"{u[0]}-{u[1]}")
@given(streams, st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_entering_events_are_added_and_leaving_events_subtracted(
    units: tuple[Unit, Unit], stream: list[Drawn], step: int, size: int, delete_used: bool
) -> None:
    window = Window(Extent(units[1], size), Extent(units[0], step), delete_used=delete_used)
    events = [(group, entry(e)) for group, e in events_of(stream)]
    values = {e.event: (1, e.time * e.event) for _, e in events}
    totals = WindowTotals()
    for group, formed in WindowQueues(window).run(events, 10**6)[0].windows:
        expected = (len(formed.events), sum(values[e][1] for e in formed.events))
        assert totals.update_sums(group, formed, values) == expected


def test_each_event_is_added_only_once() -> None:
    stream = [Drawn(0, 1, 0, 0, False, False)] * 200
    values = CountingValues({n: (1, n) for n in range(200)})
    totals = WindowTotals()
    windows = (
        WindowQueues(Window.from_text("50 tokens", "1 token"))
        .run([(0, entry(e)) for _, e in events_of(stream)], 0)[0]
        .windows
    )
    assert [totals.update_sums(group, w, values)[0] for group, w in windows] == [50] * 151
    assert values.reads == 200
