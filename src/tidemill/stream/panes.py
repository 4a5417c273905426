"""Aggregates over time windows, incremental and for all groups at once.

Time is divided into panes, so that every window begins and ends at a pane boundary. An event is added to its pane; the
sum of a window is the running sum over panes up to its end minus that up to its start. The windows are those of
`windows.time_by_time` without deletion: a window closes in its group once an event after its end has arrived, or by the
clock after its timeout. Sums are integers, so that subtraction is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt

from tidemill.model.window import Extent, Unit, Window
from tidemill.stream.keyed import Columns
from tidemill.stream.layout import Keys, RowLayout, Rows, Slots
from tidemill.stream.table import StateTable

Numbers = npt.NDArray[np.int64]
NEVER = -(2**62)
PANE, EVENTS, START, END = "pane", "events", "start", "end"


@dataclass(frozen=True, slots=True)
class PaneResult:
    windows: Columns  # the group's columns, start, end, events and the sums
    late: npt.NDArray[np.bool_]  # which events of the batch are late
    groups: Rows  # the delta of the state: watermarks of groups,
    panes: Rows  # and panes


class PaneAggregator:
    """Sums over time windows for the groups of a partition."""

    def __init__(self, window: Window, group: Sequence[str], sums: Sequence[str]) -> None:
        assert window.unit_pair == (Unit.TIME, Unit.TIME), "panes are of time"
        assert isinstance(window.size, Extent)
        assert not window.delete_used, "a window that deletes used events has each event once; panes do not support it"
        self._window = window
        self.size, self.step = window.size.amount, window.step.amount
        self.width = gcd(self.size, self.step)
        self._group, self._sums = tuple(group), (EVENTS, *sums)
        self.groups = StateTable.create_table(RowLayout(self._group, {"mark": "i8", "seen": "?"}))
        self.panes = StateTable.create_table(RowLayout((*self._group, PANE), dict.fromkeys(self._sums, "i8")))
        self._clock = NEVER  # all windows that end at or before it are closed

    def run(self, events: Columns, time: Numbers, arrived: Numbers, now: int) -> PaneResult:
        """Add events, which have the group's columns and those to sum, in order of arrival; close the due windows."""
        groups, member = _group_keys(tuple(events[name].astype(np.int64, copy=False) for name in self._group))
        group_slots = self.groups.ensure_slots(groups)
        slots, marks = group_slots[member], self._read_watermarks()
        before = self._find_marks_before(slots, time, marks)
        if self._window.timeout_delay is not None:
            before = np.maximum(before, arrived - self._window.timeout_delay)
        late = time < self.find_window_start(before)
        in_order, out_of_order = ~late & (time >= before), ~late & (time < before)
        touched = self._add_events(events, groups, member, time, in_order)
        reached = self._advance_marks(marks, slots, time, now)
        late_events = _LateEvents.from_events(
            self, slots[out_of_order], time[out_of_order], before[out_of_order], self._list_values(events, out_of_order)
        )
        windows = self._form_windows(marks, reached, late_events)
        touched = np.union1d(touched, self._add_events(events, groups, member, time, out_of_order))
        delta = self._write_marks(group_slots, reached), self.panes.read(touched)
        self._drop_passed_panes(self.find_window_start(marks), self.find_window_start(reached))
        return PaneResult(windows, late, *delta)

    def restore(self, groups: Rows, panes: Rows, clock: int) -> None:
        """Restore a state: the newest row of each group and pane, and the last clock."""
        self.groups.write(self.groups.ensure_slots(_extract_keys(groups, self._group)), groups)
        self._clock = NEVER if self._window.timeout_delay is None else clock - self._window.timeout_delay
        owners = self.groups.find_slots(_extract_keys(panes, self._group))
        live = panes[panes[PANE] >= self.find_window_start(self._read_watermarks())[owners]]
        self.panes.write(self.panes.ensure_slots(_extract_keys(live, self.panes.layout.key)), live)

    def find_window_start(self, mark: Numbers) -> Numbers:
        """Return the start of the first window that ends after the watermark."""
        return ((mark - self.size) // self.step + 1) * self.step

    def _read_watermarks(self) -> Numbers:
        rows = self.groups.read_all()
        return np.maximum(np.where(rows["seen"], rows["mark"], NEVER), self._clock)

    def _find_marks_before(self, slots: Slots, time: Numbers, marks: Numbers) -> Numbers:
        """Return the watermark before each event. If time never decreases and windows have no gaps, none is late."""
        group_marks = marks[slots]
        if self.step <= self.size and (np.diff(time) >= 0).all() and (time >= group_marks).all():
            return group_marks
        return compute_watermarks_before(slots, time, marks)

    def _list_values(self, events: Columns, which: npt.NDArray[np.bool_]) -> list[Numbers]:
        ones = np.ones(int(which.sum()), np.int64)
        return [ones, *(events[name][which].astype(np.int64) for name in self._sums[1:])]

    def _add_events(
        self, events: Columns, groups: Keys, member: Numbers, time: Numbers, which: npt.NDArray[np.bool_]
    ) -> Slots:
        """Add events to their panes, each of which is looked up once; returns the panes."""
        if not which.any():
            return np.empty(0, np.int64)
        pane = time[which] // self.width
        if which.all() and (pane == pane[0]).all():
            group, pane, positions = np.arange(len(groups[0])), np.repeat(pane[:1], len(groups[0])), member
        else:
            (group, pane), positions = _group_keys((member[which], pane))
        slots = self.panes.ensure_slots((*(k[group] for k in groups), pane * self.width))
        rows = self.panes.read(slots)
        for name, values in zip(self._sums, self._list_values(events, which), strict=True):
            np.add.at(rows[name], positions, values)
        self.panes.write(slots, rows)
        return slots

    def _advance_marks(self, marks: Numbers, slots: Slots, time: Numbers, now: int) -> Numbers:
        """Return the watermark of every group after the batch."""
        reached = marks.copy()
        np.maximum.at(reached, slots, time)
        if self._window.timeout_delay is not None:
            self._clock = max(self._clock, now - self._window.timeout_delay)
            reached = np.maximum(reached, self._clock)
        return reached

    def _form_windows(self, marks: Numbers, reached: Numbers, late_events: _LateEvents) -> Columns:
        """Return the windows that closed in this batch."""
        first, last = self.find_window_start(marks), self.find_window_start(reached)
        closing = np.flatnonzero(first < last)
        if not closing.size:
            return self._build_columns(np.empty((0, 2), np.int64), [np.empty(0, np.int64)] * len(self._sums))
        rows, owners = self._read_panes(closing)
        pairs = np.concatenate([self._list_windows(owners, rows[PANE]), late_events.windows])
        begins, ends = first[pairs[:, 0]], last[pairs[:, 0]]
        pairs = np.unique(pairs[(pairs[:, 1] >= begins) & (pairs[:, 1] < ends)], axis=0)
        totals = [self._sum_within(owners, rows, name, pairs) for name in self._sums]
        totals = [t + e for t, e in zip(totals, late_events.sum_additions(pairs), strict=True)]
        is_large_enough = totals[0] >= self._window.at_least
        return self._build_columns(pairs[is_large_enough], [t[is_large_enough] for t in totals])

    def _read_panes(self, groups: Slots) -> tuple[Rows, Slots]:
        """Return the panes of some groups and their owners, by group and time."""
        is_selected = np.zeros(self.groups.count, bool)
        is_selected[groups] = True
        rows = self.panes.read_all()
        owners = self.groups.find_slots(_extract_keys(rows, self._group))
        rows, owners = rows[is_selected[owners]], owners[is_selected[owners]]
        order = np.lexsort((rows[PANE], owners))
        return rows[order], owners[order]

    def _list_windows(self, owners: Slots, times: Numbers) -> Numbers:
        """Return every window that contains these times: its group and its start."""
        starts = self.find_window_start(times)
        offsets = np.arange(-(-self.size // self.step)) * self.step
        candidates = starts[:, None] + offsets
        inside = candidates <= times[:, None]
        return np.stack([np.broadcast_to(owners[:, None], candidates.shape)[inside], candidates[inside]], axis=1)

    def _sum_within(self, owners: Slots, rows: Rows, name: str, pairs: Numbers) -> Numbers:
        """Return the sum up to the end of each window minus the sum up to its start."""
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows[name])])
        find_position = build_place_lookup(owners, rows[PANE])
        groups, starts = pairs[:, 0], pairs[:, 1]
        within: Numbers = sums[find_position(groups, starts + self.size)] - sums[find_position(groups, starts)]
        return within

    def _build_columns(self, pairs: Numbers, totals: Sequence[Numbers]) -> Columns:
        order = np.lexsort((pairs[:, 0], pairs[:, 1]))
        rows = self.groups.read(pairs[order, 0])
        columns = {name: rows[name].copy() for name in self._group}
        columns |= {START: pairs[order, 1], END: pairs[order, 1] + self.size}
        return columns | {name: total[order] for name, total in zip(self._sums, totals, strict=True)}

    def _write_marks(self, groups: Slots, reached: Numbers) -> Rows:
        rows = self.groups.read(groups)
        rows["mark"], rows["seen"] = reached[groups], True
        self.groups.write(groups, rows)
        return rows

    def _drop_passed_panes(self, before: Numbers, floors: Numbers) -> None:
        """Drop panes that no open window contains."""
        if not (before < floors).any():
            return
        rows = self.panes.read_all()
        owners = self.groups.find_slots(_extract_keys(rows, self._group))
        live = rows[rows[PANE] >= floors[owners]]
        if 2 * len(live) < len(rows):
            self.panes = StateTable.create_table(self.panes.layout, len(live))
            self.panes.write(self.panes.ensure_slots(_extract_keys(live, self.panes.layout.key)), live)


@dataclass(frozen=True, slots=True)
class _LateEvents:
    """Events that arrived after some of their windows closed, with the windows of theirs that are still open."""

    windows: Numbers  # group and start
    values: list[Numbers]

    @classmethod
    def from_events(
        cls, panes: PaneAggregator, slots: Slots, time: Numbers, before: Numbers, values: list[Numbers]
    ) -> _LateEvents:
        numbers = np.arange(len(slots))
        windows = panes._list_windows(numbers, time)
        event, start = windows[:, 0], windows[:, 1]
        is_open = start + panes.size > before[event]
        event, start = event[is_open], start[is_open]
        return cls(np.stack([slots[event], start], axis=1), [v[event] for v in values])

    def sum_additions(self, pairs: Numbers) -> list[Numbers]:
        """Return what these events add to each of the windows."""
        find_position = build_place_lookup(pairs[:, 0], pairs[:, 1])
        groups, starts = self.windows[:, 0], self.windows[:, 1]
        begin, end = find_position(groups, starts), find_position(groups, starts + 1)
        is_listed = begin < end
        totals = [np.zeros(len(pairs), np.int64) for _ in self.values]
        for total, value in zip(totals, self.values, strict=True):
            np.add.at(total, begin[is_listed], value[is_listed])
        return totals


def _group_keys(keys: Keys) -> tuple[Keys, Numbers]:
    """Return the distinct keys, and the index of each event's key."""
    varying = [n for n, key in enumerate(keys) if len(key) and (key != key[0]).any()]
    if len(varying) > 1:
        order = np.lexsort(keys[::-1])
        is_first = np.r_[True, np.logical_or.reduce([np.diff(k[order]) != 0 for k in keys])]
        member = np.empty(len(order), np.int64)
        member[order] = np.cumsum(is_first) - 1
        return tuple(k[order][is_first] for k in keys), member
    column = keys[varying[0]] if varying else keys[0]
    _, first, member = np.unique(column, return_index=True, return_inverse=True)
    return tuple(k[first] for k in keys), member


def _extract_keys(rows: Rows, names: Sequence[str]) -> Keys:
    return tuple(np.ascontiguousarray(rows[name]) for name in names)


def compute_watermarks_before(groups: Numbers, time: Numbers, watermarks: Numbers) -> Numbers:
    """Return the latest time in its group before each event, in order of arrival, from those before the batch.

    >>> compute_watermarks_before(np.array([0, 1, 0, 0]), np.array([5, 9, 3, 7]), np.array([4, 2])).tolist()
    [4, 2, 5, 5]
    """
    group_marks = watermarks[groups]
    if not len(time):
        return group_marks
    order = np.argsort(groups, kind="stable")
    ranks = np.argsort(np.argsort(time[order], kind="stable"), kind="stable")
    is_first = np.r_[True, np.diff(groups[order]) != 0]
    block = np.cumsum(is_first) * (len(time) + 1)
    highest = np.maximum.accumulate(block + ranks)
    by_rank = np.sort(time)
    latest = by_rank[highest - block]
    before = np.empty_like(time)
    before[order] = np.where(
        is_first, group_marks[order], np.maximum(group_marks[order], np.r_[latest[:1], latest[:-1]])
    )
    return before


def build_place_lookup(groups: Numbers, times: Numbers) -> Callable[[Numbers, Numbers], Numbers]:
    """Return a function that finds the position of a time in a group; both arrays are sorted by group, then time.

    >>> find_places = build_place_lookup(np.array([0, 0, 2]), np.array([10, 20, 10]))
    >>> find_places(np.array([0, 2, 1]), np.array([15, 10, 99])).tolist()
    [1, 2, 2]
    """
    low = int(times.min()) if len(times) else 0
    span = int(times.max()) - low + 2 if len(times) else 2
    combined = groups * span + (times - low)

    def find_place(group: Numbers, time: Numbers) -> Numbers:
        return np.searchsorted(combined, group * span + np.clip(time - low, 0, span - 1))

    return find_place
