"""Views as rows that the driver holds, where nothing has to be merged or cast for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from tidemill.model.block import Block
from tidemill.model.change import Append
from tidemill.model.schema import Schema
from tidemill.model.view import Chain, Snapshot, blocks_of
from tidemill.spark import local, search
from tidemill.spark.local import Held
from tidemill.spark.merge import ORDER
from tidemill.spark.types import loose


class Holder:
    """Reads local files without Spark. None is given for all that is Spark's to read."""

    def __init__(self, locate: Callable[[str], str]) -> None:
        self._locate = locate

    def change(self, view: Chain) -> Held | None:
        """The rows of a change as they are kept."""
        filled = [d for d in view.deltas if d.files]
        one = len(filled) == 1 or (filled and isinstance(view.updates, Append))
        return self._rows(filled, view.schema) if one else None

    def since(self, view: Snapshot) -> Held | None:
        """The rows of a content's deltas, which are of one kind, with their order."""
        return self._rows([d for d in view.deltas if d.files], view.schema, ORDER)

    def content(self, view: Snapshot) -> Held | None:
        """The rows of a content."""
        if not is_plain(view):
            return None
        blocks = [b for b in blocks_of(view) if b.files]
        return self._rows(blocks, view.schema) if blocks else _nothing(view.schema)

    def found(self, view: Snapshot, keys: pa.Table, on: Sequence[tuple[str, str]], names: Sequence[str]) -> Held | None:
        """The rows of a content that agree with some of the keys, in some columns and those of the keys."""
        blocks = [b for b in blocks_of(view) if b.files]
        if not is_plain(view) or not search.searchable(blocks) or any(b.schema != view.schema for b in blocks):
            return None
        mine = {column for column, _ in on}
        wanted = local.schema_of(loose(view.schema.select(n for n in view.schema.names if n in names or n in mine)))
        files = search.files([p for b in blocks for p in self._paths(b)], wanted)
        rows = None if files is None else search.found(files, keys, on)
        return None if rows is None else Held(rows, wanted).select(names)

    def _rows(self, blocks: Sequence[Block], schema: Schema, order: str | None = None) -> Held | None:
        if not blocks or any(b.schema != schema for b in blocks):
            return None
        kept = blocks[0].updates.delta_schema(schema) if blocks[0].since is not None else schema
        return local.held([self._paths(b) for b in blocks], loose(kept), order)

    def _paths(self, block: Block) -> list[str]:
        return [self._locate(f.path) for f in block.files]


def is_plain(view: Snapshot) -> bool:
    """Are the rows of the content those of its blocks, as they are?"""
    return all(isinstance(d.updates, Append) for d in view.deltas if d.files)


def _nothing(schema: Schema) -> Held:
    struct = local.schema_of(loose(schema))
    return Held(local.arrow_schema(struct).empty_table(), struct)
