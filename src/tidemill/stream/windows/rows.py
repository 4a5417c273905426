"""Windows of rows: the input of a task on windows, and the state of its queues as blocks.

The operator works on events without their content. This module keeps the content of queued events in one Arrow table,
in order of arrival.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import BadInput
from tidemill.model.stateful import END, EVENT, EVENTS, FORMED, GROUP, NUMBERS, START, USED, WINDOW
from tidemill.model.window import Window
from tidemill.stream.waves import WaveEnd
from tidemill.stream.windows.former import FormedWindow, QueueEntry
from tidemill.stream.windows.operator import Group, WindowDelta, WindowQueues
from tidemill.stream.windows.totals import Values, WindowTotals

TIMESTAMP_TYPE = pa.timestamp("us", "UTC")
_ENTRY = {
    "time": pa.int64(), "arrived": pa.int64(), "wave": pa.int64(), "closes": pa.bool_(), "opens": pa.bool_(),
    "used": pa.bool_(), "gone": pa.bool_(), "rank": pa.int64(),
}  # fmt: skip
"""Columns stored for an event besides its number, group and content."""

_GROUPS = pa.schema({GROUP: pa.string(), NUMBERS: pa.list_(pa.int64())})

Numbers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events in order of arrival. Their numbers continue those of the previous batch."""

    content: pa.Table
    first: int  # number of the first event
    arrived: Numbers  # microseconds
    waves: Numbers | None = None
    closes: Marks | None = None  # whether it completes its wave, or closes its window
    opens: Marks | None = None
    ends: Sequence[WaveEnd] = ()  # waves that were completed by ended events


@dataclass(frozen=True, slots=True)
class WindowState:
    """Blocks of a state, a base or a delta."""

    groups: pa.Table  # by group, the numbers of its former
    queue: pa.Table  # by event, with its content
    removed: frozenset[int]  # events that were removed from their queues


@dataclass(frozen=True, slots=True)
class WindowedRows:
    windows: pa.Table  # the content of every event of a window, with the window's number, bounds and time
    expired: pa.Table  # no longer needed; `_used`: after having been part of a window
    late: pa.Table  # arrived too late
    state: WindowState


class WindowedInput:
    """A windowed input of a task, for the groups of one partition."""

    def __init__(self, window: Window, schema: pa.Schema, sums: Sequence[str] | None = None) -> None:
        """With `sums`, windows are aggregated to the sums of these columns instead of rows."""
        self._window = window
        self._windows = WindowQueues(window)
        self._content = schema.empty_table()
        self._events = np.empty(0, np.int64)
        self._sums = sums
        self._totals = WindowTotals()

    @property
    def empty_queue(self) -> pa.Table:
        """An empty queue, as a block."""
        return self._build_state(WindowDelta({}, {}, frozenset())).queue

    def restore_state(self, blocks: Iterable[WindowState]) -> None:
        """Restore the state of a base and the deltas after it."""
        states = list(blocks)
        if not states:
            return
        groups = pa.concat_tables([block.groups for block in states]).to_pydict()
        numbers = {group: tuple(n) for group, n in zip(groups[GROUP], groups[NUMBERS], strict=True)}
        queue = _find_newest_rows(
            pa.concat_tables([b.queue for b in states]), frozenset().union(*(b.removed for b in states))
        )
        self._content = queue.select(self._content.column_names)
        self._events = queue[EVENT].to_numpy()
        self._windows.restore_queues(numbers, _read_entries(queue))

    def run(self, batch: EventBatch, now: int) -> WindowedRows:
        """Add a batch, and form the windows that are due at `now` (microseconds)."""
        numbers = np.arange(batch.first, batch.first + batch.content.num_rows)
        events = zip(self._format_groups(batch.content), self._build_entries(batch, numbers), strict=True)
        result, delta = self._windows.run(events, now, batch.ends)
        self._content = pa.concat_tables([self._content, batch.content])
        self._events = np.concatenate([self._events, numbers])
        rows = WindowedRows(
            windows=self._build_window_rows(result.windows)
            if self._sums is None
            else self._build_window_sums(result.windows, self._sums),
            expired=self._take_events([e.event for _, e in result.expired]).append_column(
                USED, pa.array([e.used for _, e in result.expired], pa.bool_())
            ),
            late=self._take_events([e.event for _, e in result.late]),
            state=self._build_state(delta),
        )
        self._retain_events(delta, batch.first)
        return rows

    def _format_groups(self, content: pa.Table) -> list[str]:
        """Format groups as text, which a block can hold; different values have different texts."""
        columns = [[key.extract_value(v) for v in content[key.column_name].to_pylist()] for key in self._window.by]
        return [repr(values) for values in zip(*columns, strict=True)] if columns else ["()"] * content.num_rows

    def _build_entries(self, batch: EventBatch, numbers: Numbers) -> list[QueueEntry]:
        zeros = np.zeros(len(numbers), np.int64)
        columns = [zeros if m is None else m for m in (batch.waves, batch.closes, batch.opens)]
        times = batch.arrived if self._window.time is None else _read_times(batch.content, self._window.time)
        waves, closes, opens = columns[0].tolist(), columns[1].astype(bool).tolist(), columns[2].astype(bool).tolist()
        return list(map(QueueEntry, numbers.tolist(), times.tolist(), batch.arrived.tolist(), waves, closes, opens))

    def _take_events(self, events: Sequence[int]) -> pa.Table:
        return self._content.take(pa.array(np.searchsorted(self._events, np.array(events, np.int64))))

    def _build_window_rows(self, windows: Sequence[tuple[Group, FormedWindow]]) -> pa.Table:
        rows = self._take_events([event for _, w in windows for event in w.events])
        sizes = np.array([len(w.events) for _, w in windows], np.int64)
        described = _describe_windows(windows).take(pa.array(np.repeat(np.arange(len(windows)), sizes)))
        for name in described.column_names:
            rows = rows.append_column(name, described[name])
        return rows

    def _build_window_sums(self, windows: Sequence[tuple[Group, FormedWindow]], names: Sequence[str]) -> pa.Table:
        """Build a row for each window, by adding events that entered since the previous one and subtracting others."""
        values = _EventValues(self._events, [pc.fill_null(self._content[n], 0).to_numpy() for n in names])
        sums = [self._totals.update_sums(group, window, values) for group, window in windows]
        rows = _describe_windows(windows).drop_columns([FORMED])
        for n, name in enumerate([EVENTS, *names]):
            rows = rows.append_column(name, pa.array([s[n] for s in sums], pa.int64()))
        return rows

    def _build_state(self, delta: WindowDelta) -> WindowState:
        groups = {GROUP: list(delta.numbers), NUMBERS: list(map(list, delta.numbers.values()))}
        events = sorted(delta.entries)
        queue = self._take_events(events).append_column(EVENT, pa.array(events, pa.int64()))
        queue = queue.append_column(GROUP, pa.array([delta.entries[n][0] for n in events], pa.string()))
        for name, kind in _ENTRY.items():
            queue = queue.append_column(
                f"_{name}", pa.array([getattr(delta.entries[n][1], name) for n in events], kind)
            )
        return WindowState(pa.table(groups, _GROUPS), queue, delta.removed)

    def _retain_events(self, delta: WindowDelta, first: int) -> None:
        """Retain earlier events that were not removed, and the events of the batch that are queued."""
        is_removed = np.isin(self._events, np.fromiter(delta.removed, np.int64, len(delta.removed)))
        is_queued = np.isin(self._events, np.fromiter(delta.entries, np.int64, len(delta.entries)))
        is_retained = np.where(self._events < first, ~is_removed, is_queued)
        self._content = self._content.filter(pa.array(is_retained))
        self._events = self._events[is_retained]


def _describe_windows(windows: Sequence[tuple[Group, FormedWindow]]) -> pa.Table:
    """Build a row for each window: its group, number, bounds and time."""
    times = {START: [w.start for _, w in windows], END: [w.end for _, w in windows]}
    times[FORMED] = [w.formed_at for _, w in windows]
    groups, numbers = [group for group, _ in windows], [w.number for _, w in windows]
    return pa.table(
        {GROUP: pa.array(groups, pa.string()), WINDOW: pa.array(numbers, pa.int64())}
        | {name: pa.array(values, pa.int64()).cast(TIMESTAMP_TYPE) for name, values in times.items()}
    )


class _EventValues(Mapping[int, Values]):
    """The summands of an event, by its number: one, and its columns."""

    def __init__(self, events: Numbers, columns: Sequence[npt.NDArray[Any]]) -> None:
        self._events = events
        self._columns = columns

    def __getitem__(self, event: int) -> Values:
        position = np.searchsorted(self._events, event)
        return (1, *(int(column[position]) for column in self._columns))

    def __iter__(self) -> Iterator[int]:
        return iter(self._events.tolist())

    def __len__(self) -> int:
        return len(self._events)


def _find_newest_rows(queue: pa.Table, removed: frozenset[int]) -> pa.Table:
    """Return the last row of each event that was not removed, by event; a removed event never returns."""
    events, reverse_positions = np.unique(queue[EVENT].to_numpy()[::-1], return_index=True)
    is_retained = ~np.isin(events, np.fromiter(removed, np.int64, len(removed)))
    return queue.take(pa.array(queue.num_rows - 1 - reverse_positions[is_retained]))


def _read_entries(queue: pa.Table) -> list[tuple[Group, QueueEntry]]:
    columns: Mapping[str, list[Any]] = queue.select([EVENT, GROUP, *(f"_{name}" for name in _ENTRY)]).to_pydict()
    entries = map(QueueEntry, columns[EVENT], *(columns[f"_{name}"] for name in _ENTRY))
    return list(zip(columns[GROUP], entries, strict=True))


def _read_times(content: pa.Table, name: str) -> Numbers:
    column = content[name]
    if column.null_count:
        raise BadInput(f"expected the time of each event in column {name!r}, found NULL; give every event a time")
    timestamps = column.cast(pa.timestamp("us", column.type.tz)) if pa.types.is_timestamp(column.type) else column
    times: Numbers = timestamps.cast(pa.int64()).to_numpy()
    return times
