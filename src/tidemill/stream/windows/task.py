"""The stateful operator that forms the windows of a channel."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.model.change import DELETED
from tidemill.model.stateful import EVENT, GROUP, NUMBERS, WindowTaskSpec
from tidemill.model.wave import LineageTag
from tidemill.model.window import Between
from tidemill.stream.lineage_tags import TAG, read_tags
from tidemill.stream.operator import InputBlock, OperatorBatch, OperatorResult
from tidemill.stream.state_blocks import add_deletion_column, build_key_delta, list_live_keys
from tidemill.stream.waves import EndedEvent, WaveTracker
from tidemill.stream.windows.former import NEVER
from tidemill.stream.windows.rows import EventBatch as Events
from tidemill.stream.windows.rows import Marks, WindowedInput, WindowState

ConditionEvaluator = Callable[[pa.Table, Sequence[str]], list[Marks]]
"""Evaluates several Spark SQL conditions on rows; returns the matching rows of each."""

EVENT_NUMBER_BITS = 32
"""Bits for the number of an event within its run; the number of its block is above them."""


class WindowOperator:
    """Forms the windows of a channel, with the queued events as its state."""

    def __init__(self, code: WindowTaskSpec, schema: pa.Schema, evaluate: ConditionEvaluator) -> None:
        self._code = code
        self._schema = schema
        self._evaluate = evaluate
        self._input = WindowedInput(code.window, schema, code.sums)
        self._waves = WaveTracker()

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        groups = [block.select([GROUP, NUMBERS]) for block in blocks[WindowTaskSpec.GROUPS]]
        if groups:
            removed_rows, queued = _split_deleted([self._input.empty_queue, *blocks[WindowTaskSpec.QUEUE]])
            removed = frozenset(removed_rows[EVENT].to_pylist())
            self._input.restore_state([WindowState(pa.concat_tables(groups), queued, removed)])
        self._waves = WaveTracker(
            LineageTag.from_text(tag) for (tag,) in list_live_keys(blocks.get(WindowTaskSpec.WAVES, ()), (TAG,))
        )

    def run(self, batch: OperatorBatch) -> OperatorResult:
        events = self._number_events(batch.new[WindowTaskSpec.ARGUMENT])
        before = self._list_waiting()
        clock = batch.now if self._code.is_input else NEVER
        ended_blocks = batch.new.get(WindowTaskSpec.ENDED, ())
        ended = [EndedEvent(LineageTag.from_text(t), b.arrived) for b in ended_blocks for t in read_tags(b.rows)]
        arrived = [*events.arrived[-1:].tolist(), *(event.arrived for event in ended[-1:])]
        result = self._input.run(self._mark_events(events, ended), max([clock, *arrived]))
        outputs = {
            WindowTaskSpec.WINDOWS: result.windows,
            WindowTaskSpec.EXPIRED: result.expired,
            WindowTaskSpec.LATE: result.late,
        }
        deltas = {WindowTaskSpec.QUEUE: _build_queue_delta(result.state), WindowTaskSpec.GROUPS: result.state.groups}
        if self._code.is_by_waves:
            deltas[WindowTaskSpec.WAVES] = build_key_delta((TAG,), before, self._list_waiting())
        return OperatorResult(outputs, deltas)

    def _number_events(self, blocks: Sequence[InputBlock]) -> Events:
        """Number events in the order of their blocks."""
        rows = pa.concat_tables([self._schema.empty_table(), *(block.rows.cast(self._schema) for block in blocks)])
        first = blocks[0].number << EVENT_NUMBER_BITS if rows.num_rows else 1 << 62
        arrived = np.repeat([block.arrived for block in blocks], [block.rows.num_rows for block in blocks])
        return Events(rows.combine_chunks(), first, arrived.astype(np.int64))

    def _mark_events(self, events: Events, ended: Sequence[EndedEvent]) -> Events:
        """Return events with the results of their tags or conditions."""
        if self._code.is_by_waves:
            completions = self._waves.track_tags(
                list(map(LineageTag.from_text, read_tags(events.content))), events.arrived.tolist(), ended
            )
            return replace(events, waves=completions.waves, closes=completions.closes, ends=completions.ends)
        size = self._code.window.size
        if not isinstance(size, Between):
            return events
        closes, *opens = self._evaluate(events.content, [size.closes, *([] if size.opens is None else [size.opens])])
        return replace(events, closes=closes, opens=opens[0] if opens else None)

    def _list_waiting(self) -> dict[tuple[str, ...], None]:
        """List the tags of incomplete waves."""
        return dict.fromkeys((str(tag),) for tag in self._waves.waiting_tags)


def _build_queue_delta(state: WindowState) -> pa.Table:
    """Build the delta of the queues: queued events, and the numbers of removed ones."""
    queued = state.queue.append_column(DELETED, pa.nulls(state.queue.num_rows, pa.bool_()))
    removed = {
        EVENT: pa.array(sorted(state.removed), pa.int64()),
        DELETED: pa.array([True] * len(state.removed), pa.bool_()),
    }
    missing = (queued.schema.field(n) for n in queued.column_names if n not in removed)
    columns = removed | {f.name: pa.nulls(len(state.removed), f.type) for f in missing}
    return pa.concat_tables([queued, pa.table({n: columns[n] for n in queued.column_names}, schema=queued.schema)])


def _split_deleted(queues: Sequence[pa.Table]) -> tuple[pa.Table, pa.Table]:
    """Split a base and the deltas after it: removed events, and the queued rows in order."""
    rows = pa.concat_tables([add_deletion_column(q) for q in queues])
    is_deleted = pc.fill_null(rows[DELETED], False)
    return rows.filter(is_deleted), rows.filter(pc.invert(is_deleted)).drop_columns([DELETED])
