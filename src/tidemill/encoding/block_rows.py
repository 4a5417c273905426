"""The rows of a block as JSON lines for subscribers and deliveries, with a selection of columns and rows.

Rows are those of the block: rows of a delta include the columns that mark deletions and counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.encoding.values import to_json
from tidemill.errors import BadInput
from tidemill.model.block import Block, BlockKind
from tidemill.model.change import DELETED
from tidemill.model.schema import Field, Schema

CHUNK_ROWS = 1000
"""The greatest number of rows in one chunk."""

_CONDITION = re.compile(r"(\w+) *(=|!=|<=|>=|<|>) *(.*)", re.ASCII | re.DOTALL)
_COMPARE: Mapping[str, Callable[..., Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A comparison of a column with a value. It is false for NULL."""

    column: str
    operator: str
    value: str

    @classmethod
    def from_text(cls, text: str) -> RowCondition:
        """Parse a condition.

        >>> RowCondition.from_text("price >= 10")
        RowCondition(column='price', operator='>=', value='10')
        """
        match = _CONDITION.fullmatch(text.strip())
        if match is None:
            raise BadInput(f"{text!r} is not a condition; write a column, one of {' '.join(_COMPARE)} and a value")
        return cls(*match.groups())

    def compute_mask(self, batch: pa.RecordBatch) -> pa.Array:
        column = batch.column(self.column)
        try:
            value = pa.scalar(self.value).cast(column.type)
            return _COMPARE[self.operator](column, value).fill_null(False)
        except pa.ArrowException as error:
            problem = f"column {self.column!r} is {column.type} and cannot be compared with {self.value!r}"
            raise BadInput(problem) from error


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The selected columns and rows; by default all. Deletions are always included."""

    columns: tuple[str, ...] = ()
    conditions: tuple[RowCondition, ...] = ()

    @classmethod
    def from_texts(cls, columns: str | None, conditions: Iterable[str]) -> RowSelection:
        names = tuple(name.strip() for name in columns.split(",")) if columns else ()
        return cls(names, tuple(RowCondition.from_text(text) for text in conditions))

    def check_columns(self, channel: str, schema: Schema) -> None:
        for name in (*self.columns, *(c.column for c in self.conditions)):
            if name not in schema:
                raise BadInput(f"channel {channel} has no column {name!r}; it has {', '.join(schema.names)}")

    def select_fields(self, physical: Schema, content: Schema) -> list[Field]:
        """The selected columns, and the additional columns of a delta."""
        names = self.columns or content.names
        return [f for f in physical if f.name in names or f.name not in content]

    def filter_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.conditions:
            return batch
        mask = reduce(pc.and_, (condition.compute_mask(batch) for condition in self.conditions))
        if DELETED in batch.schema.names:
            mask = pc.or_(mask, batch.column(DELETED).fill_null(False))
        return batch.filter(mask)


@dataclass(frozen=True, slots=True)
class RowChunk:
    """Some rows of a block, one per line; `more` if other rows of the block follow."""

    block: Block
    lines: tuple[str, ...]
    more: bool

    def to_text(self) -> str:
        block = self.block
        header = {"block": block.seq, "kind": str(block.kind), "updates": block.updates.name}
        counts = {"rows": len(self.lines), "more": self.more}
        return "\n".join((json.dumps({**header, **counts}, separators=(",", ":")), *self.lines))


def split_into_chunks(block: Block, open: Callable[[str], BinaryIO], selection: RowSelection) -> Iterator[RowChunk]:
    """The block in chunks; the last one has `more` false, and may have no rows."""
    physical = block.schema if block.kind is BlockKind.BASE else block.updates.build_delta_schema(block.schema)
    fields = selection.select_fields(physical, block.schema)
    pending: tuple[str, ...] | None = None
    for lines in _read_lines(block, open, selection, fields):
        if pending is not None:
            yield RowChunk(block, pending, more=True)
        pending = lines
    yield RowChunk(block, pending or (), more=False)


def _read_lines(
    block: Block, open: Callable[[str], BinaryIO], selection: RowSelection, fields: list[Field]
) -> Iterator[tuple[str, ...]]:
    for file in block.files:
        with open(file.path) as source:
            for batch in pq.ParquetFile(source).iter_batches(CHUNK_ROWS):
                rows = selection.filter_rows(batch).to_pylist()
                cells = ({f.name: to_json(row.get(f.name), f.data_type) for f in fields} for row in rows)
                if rows:
                    yield tuple(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in cells)
