"""Views as rows that the driver holds, where nothing has to be cast for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.algebra.operators import Operator, Ref, repeated
from tidemill.algebra.pieces import latest
from tidemill.algebra.states import net
from tidemill.model.block import Block
from tidemill.model.change import COUNT, Append, Signed, Upsert
from tidemill.model.schema import Schema
from tidemill.model.view import Chain, Snapshot, blocks_of
from tidemill.spark.local import batches, key_lookup
from tidemill.spark.local.batches import Held
from tidemill.spark.local.operators import ByHand
from tidemill.spark.merge import ORDER
from tidemill.spark.types import loose


class Holder:
    """Reads local files without Spark. None is given for all that is Spark's to read."""

    def __init__(self, locate: Callable[[str], str]) -> None:
        self._locate = locate

    def change(self, view: Chain) -> Held | None:
        """The rows of a change as they are kept, each at most once if they merge."""
        filled = [d for d in view.deltas if d.files]
        match view.updates:
            case updates if len(filled) < 2 or isinstance(updates, Append):
                return self._rows(filled, view.schema)
            case Signed():
                return _made(self._rows(filled, view.schema), net)
            case Upsert(key):
                return _made(self._rows(filled, view.schema, ORDER), lambda rows: latest(rows, key, ORDER))
        return None

    def since(self, view: Snapshot) -> Held | None:
        """The rows of a content's deltas, which are of one kind, with their order."""
        return self._rows([d for d in view.deltas if d.files], view.schema, ORDER)

    def content(self, view: Snapshot, names: Sequence[str]) -> Held | None:
        """The rows of a content in some columns; what else it has may come along."""
        if is_plain(view):
            blocks = [b for b in blocks_of(view) if b.files]
            if any(b.schema != view.schema for b in blocks):
                return None
            wanted = view.schema.select(n for n in view.schema.names if n in names)
            return batches.held([self._paths(b) for b in blocks], loose(wanted)) if blocks else _nothing(wanted)
        if not is_counted(view):
            return None
        base = self.content(replace(view, deltas=()), view.schema.names)
        changes = self._rows([d for d in view.deltas if d.files], view.schema)
        return _counted(base, changes) if base and changes else None

    def found(self, view: Snapshot, keys: pa.Table, on: Sequence[tuple[str, str]], names: Sequence[str]) -> Held | None:
        """The rows of a content that agree with some of the keys, in some columns and those of the keys."""
        blocks = [b for b in blocks_of(view) if b.files]
        if not is_plain(view) or not key_lookup.searchable(blocks) or any(b.schema != view.schema for b in blocks):
            return None
        mine = {column for column, _ in on}
        wanted = batches.schema_of(loose(view.schema.select(n for n in view.schema.names if n in names or n in mine)))
        files = key_lookup.files([p for b in blocks for p in self._paths(b)], wanted)
        rows = None if files is None else key_lookup.found(files, keys, on)
        return None if rows is None else Held(rows, wanted).select(names)

    def _rows(self, blocks: Sequence[Block], schema: Schema, order: str | None = None) -> Held | None:
        if not blocks or any(b.schema != schema for b in blocks):
            return None
        kept = blocks[0].updates.delta_schema(schema) if blocks[0].since is not None else schema
        return batches.held([self._paths(b) for b in blocks], loose(kept), order)

    def _paths(self, block: Block) -> list[str]:
        return [self._locate(f.path) for f in block.files]


def is_plain(view: Snapshot) -> bool:
    """Are the rows of the content those of its blocks, as they are?"""
    return all(isinstance(d.updates, Append) for d in view.deltas if d.files)


def is_counted(view: Snapshot) -> bool:
    """Is the content that of its base with signed rows since?"""
    return all(isinstance(d.updates, Signed) for d in view.deltas if d.files)


def _counted(base: Held, changes: Held) -> Held | None:
    """The rows after signed changes. None if one was deleted that is not there, which is Spark's to say."""
    names = base.struct.names
    present = base.plus(changes.struct[COUNT], pa.repeat(pa.scalar(1, pa.int64()), base.table.num_rows))
    signed = changes.select(present.struct.names)
    rows = _made(Held(pa.concat_tables([present.table, signed.table]), signed.struct), net)
    if rows is None or pc.any(pc.less(rows.table.column(COUNT), 0)).as_py():
        return None
    made = _made(rows, lambda counted: repeated(counted, COUNT, "_n"))
    return made and made.select(names)


def _made(rows: Held | None, of: Callable[[Operator], Operator]) -> Held | None:
    """What an operator makes of the rows."""
    if rows is None:
        return None
    return ByHand(lambda op: rows if isinstance(op, Ref) else None)(of(Ref("rows", tuple(rows.struct.names))))


def _nothing(schema: Schema) -> Held:
    struct = batches.schema_of(loose(schema))
    return Held(batches.arrow_schema(struct).empty_table(), struct)
