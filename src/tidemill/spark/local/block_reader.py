"""Reading views as local batches, where no casts are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.algebra.operators import Operator, StepReference, repeat_rows
from tidemill.algebra.pieces import pick_latest_rows
from tidemill.algebra.states import cancel_signed_rows
from tidemill.model.block import Block
from tidemill.model.change import COUNT, Append, Signed, Upsert
from tidemill.model.schema import Schema
from tidemill.model.view import DeltaChain, Snapshot, list_blocks
from tidemill.spark.local import batches, key_lookup
from tidemill.spark.local.batches import LocalBatch
from tidemill.spark.local.operators import LocalExecutor
from tidemill.spark.merge import ORDER
from tidemill.spark.types import to_nullable_ddl


class LocalBlockReader:
    """Reads local files without Spark; None for views that Spark must read."""

    def __init__(self, locate: Callable[[str], str]) -> None:
        self._locate = locate

    def read_change(self, view: DeltaChain) -> LocalBatch | None:
        """The rows of a change as stored, merged to one row for each key."""
        filled = [d for d in view.deltas if d.files]
        match view.updates:
            case updates if len(filled) < 2 or isinstance(updates, Append):
                return self._read_blocks(filled, view.schema)
            case Signed():
                return _apply_operator(self._read_blocks(filled, view.schema), cancel_signed_rows)
            case Upsert(key):
                return _apply_operator(
                    self._read_blocks(filled, view.schema, ORDER), lambda rows: pick_latest_rows(rows, key, ORDER)
                )
        return None

    def read_deltas(self, view: Snapshot) -> LocalBatch | None:
        """The rows of a content's deltas, which have one kind of updates, with their order."""
        return self._read_blocks([d for d in view.deltas if d.files], view.schema, ORDER)

    def read_content(self, view: Snapshot, names: Sequence[str]) -> LocalBatch | None:
        """The rows of a content with at least these columns."""
        if is_append_only(view):
            blocks = [b for b in list_blocks(view) if b.files]
            if any(b.schema != view.schema for b in blocks):
                return None
            schema = view.schema.select_fields(n for n in view.schema.names if n in names)
            return (
                batches.read_batch([self._list_paths(b) for b in blocks], to_nullable_ddl(schema))
                if blocks
                else _build_empty_batch(schema)
            )
        if not is_signed(view):
            return None
        base = self.read_content(replace(view, deltas=()), view.schema.names)
        changes = self._read_blocks([d for d in view.deltas if d.files], view.schema)
        return _apply_counts(base, changes) if base and changes else None

    def find_by_keys(
        self, view: Snapshot, keys: pa.Table, on: Sequence[tuple[str, str]], names: Sequence[str]
    ) -> LocalBatch | None:
        """The rows of a content that match one of the keys, in these columns."""
        blocks = [b for b in list_blocks(view) if b.files]
        if (
            not is_append_only(view)
            or not key_lookup.is_searchable(blocks)
            or any(b.schema != view.schema for b in blocks)
        ):
            return None
        key_columns = {column for column, _ in on}
        struct = batches.parse_ddl(
            to_nullable_ddl(view.schema.select_fields(n for n in view.schema.names if n in names or n in key_columns))
        )
        files = key_lookup.open_files([p for b in blocks for p in self._list_paths(b)], struct)
        rows = None if files is None else key_lookup.find_rows(files, keys, on)
        return None if rows is None else LocalBatch(rows, struct).select_columns(names)

    def _read_blocks(self, blocks: Sequence[Block], schema: Schema, order: str | None = None) -> LocalBatch | None:
        if not blocks or any(b.schema != schema for b in blocks):
            return None
        stored_schema = blocks[0].updates.build_delta_schema(schema) if blocks[0].since is not None else schema
        return batches.read_batch([self._list_paths(b) for b in blocks], to_nullable_ddl(stored_schema), order)

    def _list_paths(self, block: Block) -> list[str]:
        return [self._locate(f.path) for f in block.files]


def is_append_only(view: Snapshot) -> bool:
    """Whether the rows of the content are exactly those of its blocks."""
    return all(isinstance(d.updates, Append) for d in view.deltas if d.files)


def is_signed(view: Snapshot) -> bool:
    """Whether the content is its base plus signed rows."""
    return all(isinstance(d.updates, Signed) for d in view.deltas if d.files)


def _apply_counts(base: LocalBatch, changes: LocalBatch) -> LocalBatch | None:
    """The rows after signed changes. None if a deleted row does not exist, which Spark reports as an error."""
    names = base.struct.names
    present = base.add_column(changes.struct[COUNT], pa.repeat(pa.scalar(1, pa.int64()), base.table.num_rows))
    signed = changes.select_columns(present.struct.names)
    rows = _apply_operator(
        LocalBatch(pa.concat_tables([present.table, signed.table]), signed.struct), cancel_signed_rows
    )
    if rows is None or pc.any(pc.less(rows.table.column(COUNT), 0)).as_py():
        return None
    repeated = _apply_operator(rows, lambda counted: repeat_rows(counted, COUNT, "_n"))
    return repeated and repeated.select_columns(names)


def _apply_operator(rows: LocalBatch | None, build: Callable[[Operator], Operator]) -> LocalBatch | None:
    """The rows after applying an operator."""
    if rows is None:
        return None
    return LocalExecutor(lambda op: rows if isinstance(op, StepReference) else None)(
        build(StepReference("rows", tuple(rows.struct.names)))
    )


def _build_empty_batch(schema: Schema) -> LocalBatch:
    struct = batches.parse_ddl(to_nullable_ddl(schema))
    return LocalBatch(batches.build_arrow_schema(struct).empty_table(), struct)
