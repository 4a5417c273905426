"""Windows on a channel, as a step with state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.model.change import DELETED
from tidemill.model.stateful import EVENT, GROUP, NUMBERS, WindowTaskSpec
from tidemill.model.wave import LineageTag
from tidemill.model.window import Between
from tidemill.stream.lineage_tags import TAG, read_tags
from tidemill.stream.operator import InputBlock, OperatorBatch, OperatorResult
from tidemill.stream.state_blocks import add_deletion_column, list_live_keys
from tidemill.stream.waves import EndedEvent, WaveTracker
from tidemill.stream.windows.former import NEVER
from tidemill.stream.windows.rows import EventBatch as Events
from tidemill.stream.windows.rows import Marks, WindowedInput, WindowState

Judge = Callable[[pa.Table, Sequence[str]], list[Marks]]
"""For which rows each of several conditions in Spark SQL holds."""

ROWS = 32
"""Bits for the number of an event among those of its run; the number of its block is above them."""


class WindowOperator:
    """Forms the windows of a channel, and keeps what waits in queues as state."""

    def __init__(self, code: WindowTaskSpec, schema: pa.Schema, judge: Judge) -> None:
        self._code = code
        self._schema = schema
        self._judge = judge
        self._input = WindowedInput(code.window, schema, code.sums)
        self._waves = WaveTracker()

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        groups = [block.select([GROUP, NUMBERS]) for block in blocks[WindowTaskSpec.GROUPS]]
        if groups:
            gone, waiting = _split_deleted([self._input.empty_queue, *blocks[WindowTaskSpec.QUEUE]])
            left = frozenset(gone[EVENT].to_pylist())
            self._input.restore_state([WindowState(pa.concat_tables(groups), waiting, left)])
        self._waves = WaveTracker(
            LineageTag.from_text(tag) for (tag,) in list_live_keys(blocks.get(WindowTaskSpec.WAVES, ()), (TAG,))
        )

    def run(self, batch: OperatorBatch) -> OperatorResult:
        events = self._number_events(batch.new[WindowTaskSpec.ARGUMENT])
        before = {str(tag) for tag in self._waves.waiting_tags}
        passed = batch.now if self._code.fed else NEVER
        words = _read_ended_events(batch.new.get(WindowTaskSpec.ENDED, ()))
        arrived = [*events.arrived[-1:].tolist(), *(word.arrived for word in words[-1:])]
        made = self._input.run(self._mark_events(events, words), max([passed, *arrived]))
        outputs = {
            WindowTaskSpec.WINDOWS: made.windows,
            WindowTaskSpec.EXPIRED: made.expired,
            WindowTaskSpec.LATE: made.late,
        }
        deltas = {WindowTaskSpec.QUEUE: _build_queue_delta(made.state), WindowTaskSpec.GROUPS: made.state.groups}
        return OperatorResult(outputs, deltas | self._build_tag_delta(before))

    def _number_events(self, pieces: Sequence[InputBlock]) -> Events:
        """Events are numbered in the order of their blocks."""
        rows = pa.concat_tables([self._schema.empty_table(), *(p.rows.cast(self._schema) for p in pieces)])
        first = pieces[0].number << ROWS if rows.num_rows else 1 << 62
        arrived = np.repeat([p.arrived for p in pieces], [p.rows.num_rows for p in pieces]).astype(np.int64)
        return Events(rows.combine_chunks(), first, arrived)

    def _mark_events(self, events: Events, words: Sequence[EndedEvent]) -> Events:
        """With what their tags or conditions say of them."""
        if self._code.is_by_waves:
            found = self._waves.track_tags(
                list(map(LineageTag.from_text, read_tags(events.content))), events.arrived.tolist(), words
            )
            return Events(events.content, events.first, events.arrived, found.waves, found.closes, None, found.ends)
        size = self._code.window.size
        if not isinstance(size, Between):
            return events
        closes, *opens = self._judge(events.content, [size.closes, *([] if size.opens is None else [size.opens])])
        return Events(events.content, events.first, events.arrived, None, closes, opens[0] if opens else None)

    def _build_tag_delta(self, before: set[str]) -> dict[str, pa.Table]:
        """How the tags of waves that are not complete have changed."""
        if not self._code.is_by_waves:
            return {}
        now = {str(tag) for tag in self._waves.waiting_tags}
        came, gone = sorted(now - before), sorted(before - now)
        deleted = pa.array([None] * len(came) + [True] * len(gone), pa.bool_())
        return {WindowTaskSpec.WAVES: pa.table({TAG: pa.array([*came, *gone], pa.string()), DELETED: deleted})}


def _read_ended_events(pieces: Sequence[InputBlock]) -> list[EndedEvent]:
    return [EndedEvent(LineageTag.from_text(tag), piece.arrived) for piece in pieces for tag in read_tags(piece.rows)]


def _build_queue_delta(state: WindowState) -> pa.Table:
    """What is in queues, and the numbers of what is no longer."""
    kept = state.queue.append_column(DELETED, pa.nulls(state.queue.num_rows, pa.bool_()))
    gone = {EVENT: pa.array(sorted(state.left), pa.int64()), DELETED: pa.array([True] * len(state.left), pa.bool_())}
    missing = (kept.schema.field(n) for n in kept.column_names if n not in gone)
    columns = gone | {f.name: pa.nulls(len(state.left), f.type) for f in missing}
    return pa.concat_tables([kept, pa.table({n: columns[n] for n in kept.column_names}, schema=kept.schema)])


def _split_deleted(queues: Sequence[pa.Table]) -> tuple[pa.Table, pa.Table]:
    """Of a base and the deltas after it: what has left, and the rows in order."""
    every = pa.concat_tables([add_deletion_column(q) for q in queues])
    gone = pc.fill_null(every[DELETED], False)
    return every.filter(gone), every.filter(pc.invert(gone)).drop_columns([DELETED])
