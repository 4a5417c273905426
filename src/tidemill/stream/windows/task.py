"""Windows on a channel, as a step with state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.model.change import DELETED
from tidemill.model.stateful import EVENT, GROUP, NUMBERS, Windowed
from tidemill.model.wave import Tag
from tidemill.model.window import Between
from tidemill.stream.lineage_tags import TAG, tags_of
from tidemill.stream.operator import Batch, Made, Piece
from tidemill.stream.state_blocks import marked, standing
from tidemill.stream.waves import Completion, Word
from tidemill.stream.windows.former import NEVER
from tidemill.stream.windows.rows import Batch as Events
from tidemill.stream.windows.rows import Marks, State, WindowedInput

Judge = Callable[[pa.Table, Sequence[str]], list[Marks]]
"""For which rows each of several conditions in Spark SQL holds."""

ROWS = 32
"""Bits for the number of an event among those of its run; the number of its block is above them."""


class WindowStep:
    """Forms the windows of a channel, and keeps what waits in queues as state."""

    def __init__(self, code: Windowed, schema: pa.Schema, judge: Judge) -> None:
        self._code = code
        self._schema = schema
        self._judge = judge
        self._input = WindowedInput(code.window, schema, code.sums)
        self._waves = Completion()

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        groups = [block.select([GROUP, NUMBERS]) for block in blocks[Windowed.GROUPS]]
        if groups:
            gone, waiting = _parted([self._input.nothing, *blocks[Windowed.QUEUE]])
            left = frozenset(gone[EVENT].to_pylist())
            self._input.restore([State(pa.concat_tables(groups), waiting, left)])
        self._waves = Completion(Tag.parse(tag) for (tag,) in standing(blocks.get(Windowed.WAVES, ()), (TAG,)))

    def run(self, batch: Batch) -> Made:
        events = self._events(batch.new[Windowed.ARGUMENT])
        before = {str(tag) for tag in self._waves.waiting}
        passed = batch.now if self._code.fed else NEVER
        words = _words(batch.new.get(Windowed.ENDED, ()))
        arrived = [*events.arrived[-1:].tolist(), *(word.arrived for word in words[-1:])]
        made = self._input.run(self._marked(events, words), max([passed, *arrived]))
        outputs = {Windowed.WINDOWS: made.windows, Windowed.EXPIRED: made.expired, Windowed.LATE: made.late}
        deltas = {Windowed.QUEUE: _delta(made.state), Windowed.GROUPS: made.state.groups}
        return Made(outputs, deltas | self._tags(before))

    def _events(self, pieces: Sequence[Piece]) -> Events:
        """Events are numbered in the order of their blocks."""
        rows = pa.concat_tables([self._schema.empty_table(), *(p.rows.cast(self._schema) for p in pieces)])
        first = pieces[0].number << ROWS if rows.num_rows else 1 << 62
        arrived = np.repeat([p.arrived for p in pieces], [p.rows.num_rows for p in pieces]).astype(np.int64)
        return Events(rows.combine_chunks(), first, arrived)

    def _marked(self, events: Events, words: Sequence[Word]) -> Events:
        """With what their tags or conditions say of them."""
        if self._code.by_waves:
            found = self._waves.run(list(map(Tag.parse, tags_of(events.content))), events.arrived.tolist(), words)
            return Events(events.content, events.first, events.arrived, found.waves, found.closes, None, found.ends)
        size = self._code.window.size
        if not isinstance(size, Between):
            return events
        closes, *opens = self._judge(events.content, [size.closes, *([] if size.opens is None else [size.opens])])
        return Events(events.content, events.first, events.arrived, None, closes, opens[0] if opens else None)

    def _tags(self, before: set[str]) -> dict[str, pa.Table]:
        """How the tags of waves that are not complete have changed."""
        if not self._code.by_waves:
            return {}
        now = {str(tag) for tag in self._waves.waiting}
        came, gone = sorted(now - before), sorted(before - now)
        deleted = pa.array([None] * len(came) + [True] * len(gone), pa.bool_())
        return {Windowed.WAVES: pa.table({TAG: pa.array([*came, *gone], pa.string()), DELETED: deleted})}


def _words(pieces: Sequence[Piece]) -> list[Word]:
    return [Word(Tag.parse(tag), piece.arrived) for piece in pieces for tag in tags_of(piece.rows)]


def _delta(state: State) -> pa.Table:
    """What is in queues, and the numbers of what is no longer."""
    kept = state.queue.append_column(DELETED, pa.nulls(state.queue.num_rows, pa.bool_()))
    gone = {EVENT: pa.array(sorted(state.left), pa.int64()), DELETED: pa.array([True] * len(state.left), pa.bool_())}
    missing = (kept.schema.field(n) for n in kept.column_names if n not in gone)
    columns = gone | {f.name: pa.nulls(len(state.left), f.type) for f in missing}
    return pa.concat_tables([kept, pa.table({n: columns[n] for n in kept.column_names}, schema=kept.schema)])


def _parted(queues: Sequence[pa.Table]) -> tuple[pa.Table, pa.Table]:
    """Of a base and the deltas after it: what has left, and the rows in order."""
    every = pa.concat_tables([marked(q) for q in queues])
    gone = pc.fill_null(every[DELETED], False)
    return every.filter(gone), every.filter(pc.invert(gone)).drop_columns([DELETED])
