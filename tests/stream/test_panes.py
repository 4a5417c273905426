"""Sums over panes are the sums over the windows that the window operator forms."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.stream.test_windows import Drawn, entry, events_of, streams

from tidemill.model.window import Extent, Unit, Window
from tidemill.stream.layout import Rows
from tidemill.stream.panes import PaneAggregator
from tidemill.stream.state_blocks import to_arrow_table
from tidemill.stream.windows.operator import WindowQueues

WindowSums = dict[tuple[int, int, int], tuple[int, int]]


def sum_windows(window: Window, stream: list[Drawn], now: int) -> tuple[WindowSums, set[int]]:
    events = events_of(stream)
    result, _ = WindowQueues(window).run([(group, entry(e)) for group, e in events], now)
    sums = {(group, w.start, w.end): (len(w.events), sum(e * e for e in w.events)) for group, w in result.windows}
    return sums, {e.event for _, e in result.late}


def merge_deltas(parts: list[Rows], panes: PaneAggregator, table: str) -> Rows:
    """The rows after all deltas: the last row of each key."""
    layout = getattr(panes, table).layout
    rows = {tuple(r[k] for k in layout.key): r for part in parts for r in part}
    return np.array(list(rows.values()), layout.dtype) if rows else layout.build_blank_rows(0)


def sum_panes(window: Window, stream: list[Drawn], cuts: list[int], now: int) -> tuple[WindowSums, set[int]]:
    """The sums over panes in batches, each on state restored from the earlier deltas."""
    events = events_of(stream)
    sums: WindowSums = {}
    late: set[int] = set()
    group_deltas: list[Rows] = []
    pane_deltas: list[Rows] = []
    clock = -(2**40)
    for begin, end in pairwise([0, *sorted(cuts), len(events)]):
        panes = PaneAggregator(window, ["group"], ["square"])
        panes.restore(merge_deltas(group_deltas, panes, "groups"), merge_deltas(pane_deltas, panes, "panes"), clock)
        batch = events[begin:end]
        number = np.array([e.event for _, e in batch], np.int64)
        columns = {"group": np.array([g for g, _ in batch], np.int64), "square": number * number}
        clock = now if end == len(events) else events[end - 1][1].arrived if end else 0
        time, arrived = (np.array([getattr(e, n) for _, e in batch], np.int64) for n in ("time", "arrived"))
        formed = panes.run(columns, time, arrived, clock)
        rows = zip(*(formed.windows[n].tolist() for n in ("group", "start", "end", "events", "square")), strict=True)
        for group, start, stop, count, square in rows:
            assert (group, start, stop) not in sums
            sums[group, start, stop] = (count, square)
        late |= set(number[formed.late].tolist())
        group_deltas.append(formed.groups)
        pane_deltas.append(formed.panes)
    return sums, late


@given(
    streams,
    st.lists(st.integers(0, 50), max_size=6) | st.just(list(range(50))),
    st.sampled_from([0, 3, 100]),
    st.integers(1, 7),
    st.integers(1, 7),
    st.sampled_from([None, 1, 1.5, 4]),
    st.integers(1, 2),
)
def test_sums_over_panes_equal_those_over_windows(
    stream: list[Drawn], cuts: list[int], silence: int, step: int, size: int, timeout: float | None, at_least: int
) -> None:
    window = Window(Extent(Unit.TIME, size), Extent(Unit.TIME, step), (), timeout, at_least=at_least)
    events = events_of(stream)
    now = (events[-1][1].arrived if events else 0) + silence
    cuts = [c % (len(events) + 1) for c in cuts]
    assert sum_panes(window, stream, cuts, now) == sum_windows(window, stream, now)


def test_a_late_event_is_added_to_the_open_windows() -> None:
    """103 ends [100, 103); a later event at 102 belongs only to the windows after it, although to the same pane."""
    panes = PaneAggregator(Window(Extent(Unit.TIME, 3), Extent(Unit.TIME, 1)), ["group"], [])
    time, arrived = np.array([100, 103, 102, 110]), np.array([100, 103, 103, 110])
    formed = panes.run({"group": np.zeros(4, np.int64)}, time, arrived, 110)
    assert formed.windows["start"].tolist() == [98, 99, 100, 101, 102, 103]
    assert formed.windows["events"].tolist() == [1, 1, 1, 2, 2, 1]


def test_finished_panes_are_removed() -> None:
    panes = PaneAggregator(Window.from_text("2s", "1s", timeout=1), ["group"], ["amount"])
    for second in range(50):
        time = np.full(300, second * 1_000_000)
        panes.run({"group": np.arange(300), "amount": np.arange(300)}, time, time, second * 1_000_000)
    assert to_arrow_table(panes.panes.read_all(), panes.panes.layout).num_rows < 300 * 8
