"""The window operator forms the windows of the reference, for any batches."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stream.reference import Event, history

from tidemill.model.window import Between, Extent, Unit, Window
from tidemill.stream.windows.former import QueueEntry
from tidemill.stream.windows.operator import Group, WindowDelta, WindowQueues

UNITS = [(step, size) for step in Unit for size in Unit]


@dataclass(frozen=True)
class Drawn:
    """An event of a random stream."""

    group: int
    after: int  # time since the previous event, sometimes a long gap
    late_by: int
    wave: int
    closes: bool
    opens: bool


gaps = st.sampled_from([0, 0, 1, 1, 2, 3, 5, 40])
delays = st.sampled_from([0, 0, 0, 1, 3, 9])
streams = st.lists(
    st.builds(Drawn, st.sampled_from([0, 0, 0, 1, 2]), gaps, delays, st.integers(0, 4), st.booleans(), st.booleans()),
    max_size=40,
)


def events_of(stream: list[Drawn]) -> list[tuple[int, Event]]:
    """Complete waves get a new number, so that every wave is completed once, by its last event."""
    arrivals = accumulate((d.after for d in stream), initial=100)
    rounds: dict[tuple[int, int], int] = defaultdict(int)
    events = []
    for number, (drawn, arrived) in enumerate(zip(stream, list(arrivals)[1:], strict=True)):
        key = (drawn.group, drawn.wave)
        wave = drawn.wave + 5 * rounds[key]
        rounds[key] += drawn.closes
        event = Event(number, arrived - drawn.late_by, arrived, wave, drawn.closes, drawn.opens)
        events.append((drawn.group, event))
    return events


class StoredState:
    """State that consists only of applied deltas."""

    def __init__(self) -> None:
        self.numbers: dict[Group, tuple[int, ...]] = {}
        self.entries: dict[int, tuple[Group, tuple[object, ...]]] = {}

    def apply(self, delta: WindowDelta) -> None:
        self.numbers |= delta.numbers
        for event, (group, e) in delta.entries.items():
            packed = (e.event, e.time, e.arrived, e.wave, e.closes, e.opens, e.used, e.gone, e.rank)
            self.entries[event] = (group, packed)
        for event in delta.removed:
            del self.entries[event]

    def windows(self, window: Window) -> WindowQueues:
        restored = WindowQueues(window)
        restored.restore_queues(self.numbers, [(group, QueueEntry(*packed)) for group, packed in self.entries.values()])
        return restored


def entry(event: Event) -> QueueEntry:
    return QueueEntry(event.event, event.time, event.arrived, event.wave, event.closes, event.opens)


def run_batches(window: Window, events: list[tuple[int, Event]], cuts: list[int], now: int) -> dict[int, object]:
    """The operator's result for a stream in batches, with its state stored and restored after each."""
    stored = StoredState()
    formed: dict[int, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
    expired, late = defaultdict(set), defaultdict(set)
    bounds = [0, *sorted(cuts), len(events)]
    for begin, end in pairwise(bounds):
        batch = [(group, entry(e)) for group, e in events[begin:end]]
        clock = now if end == len(events) else events[end - 1][1].arrived if end else 0
        result, delta = stored.windows(window).run(batch, clock)
        stored.apply(delta)
        for group, w in result.windows:
            assert w.number == len(formed[group])
            formed[group].append((w.formed_at, w.events))
        for group, e in result.expired:
            assert e.event not in expired[group]
            expired[group].add((e.event, e.used))
        for group, e in result.late:
            late[group].add(e.event)
    waiting: dict[int, set[int]] = defaultdict(set)
    for group, packed in stored.entries.values():
        if not packed[7]:
            waiting[group].add(packed[0])
    groups = {group for group, _ in events}
    return {g: (formed[g], expired[g], late[g], waiting[g]) for g in groups}


def run_reference(window: Window, events: list[tuple[int, Event]], now: int) -> dict[int, object]:
    outcomes = {}
    for group in {g for g, _ in events}:
        h = history(window, [e for g, e in events if g == group], now)
        expired = {(e.event, e.used) for e in h.came if e.expired}
        late = {e.event for e in h.came if e.late}
        outcomes[group] = (h.formed, expired, late, {e.event for e in h.came if e.waits})
    return outcomes


def check(window: Window, stream: list[Drawn], cuts: list[int], silence: int) -> None:
    events = events_of(stream)
    now = (events[-1][1].arrived if events else 0) + silence
    cuts = [c % (len(events) + 1) for c in cuts]
    assert run_batches(window, events, cuts, now) == run_reference(window, events_of(stream), now)


@pytest.mark.parametrize("units", UNITS, ids=lambda u: f"{u[0]}-{u[1]}")
@given(
    streams,
    st.lists(st.integers(0, 50), max_size=6) | st.just(list(range(50))),
    st.sampled_from([0, 3, 100]),
    st.integers(1, 7),
    st.integers(1, 7),
    st.sampled_from([None, 1, 1.5, 4]),
    st.booleans(),
    st.integers(1, 2),
)
def test_all_combinations_of_units(
    units: tuple[Unit, Unit],
    stream: list[Drawn],
    cuts: list[int],
    silence: int,
    step: int,
    size: int,
    timeout: float | None,
    delete_used: bool,
    at_least: int,
) -> None:
    timeout = timeout if units[0] is Unit.TIME else None
    at_least = min(at_least, size)
    window = Window(
        Extent(units[1], size), Extent(units[0], step), (), timeout, delete_used=delete_used, at_least=at_least
    )
    assert window.find_problems() == []
    check(window, stream, cuts, silence)


@given(
    streams, st.lists(st.integers(0, 50), max_size=6), st.booleans(), st.booleans(), st.booleans(), st.integers(1, 3)
)
def test_windows_by_condition_and_punctuation(
    stream: list[Drawn], cuts: list[int], opened: bool, punctuation: bool, delete_used: bool, at_least: int
) -> None:
    marks = Between("closes", "opens" if opened else None, punctuation)
    check(Window(marks, delete_used=delete_used, at_least=at_least), stream, cuts, 0)
