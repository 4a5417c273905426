"""Views as Arrow tables and Arrow tables as blocks, without Spark where files are local and nothing is merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tidemill.encoding.arrow_types import arrow_schema
from tidemill.errors import BadInput, BlockDamaged
from tidemill.model.block import Block, Kind
from tidemill.model.change import COUNT, DELETED, Append, Increment, Signed, Upsert
from tidemill.model.schema import Schema
from tidemill.model.view import Chain, Converted, Difference, Snapshot, View, blocks_of
from tidemill.ports.engine import Target
from tidemill.spark.block_writer import fresh, write
from tidemill.spark.local.batches import given
from tidemill.spark.view_reader import Locate, Reader
from tidemill.stream.operator import Piece

Session = Callable[[], SparkSession]
"""The session, started when it is first needed."""


class Arrow:
    """Reads and writes for tasks that work on arrays."""

    def __init__(self, session: Session, locate: Locate) -> None:
        self._session = session
        self._locate = locate

    def pieces(self, view: View) -> list[Piece]:
        """What is new, block by block where blocks only add rows; at least one piece, which may be empty."""
        if isinstance(view, Chain) and _added(view.deltas) and view.deltas:
            return [Piece(self._in(view.schema, block), _arrived(block), block.seq) for block in view.deltas]
        blocks = blocks_of(view)
        if not blocks:
            return [Piece(arrow_schema(_schema_of(view)).empty_table(), 0, 0)]
        return [Piece(self.whole(view), _arrived(blocks[-1]), blocks[-1].seq)]

    def whole(self, view: View) -> pa.Table:
        """The rows of any view; Spark merges, where there is something to merge."""
        if isinstance(view, Snapshot) and _added(view.deltas):
            nothing = arrow_schema(view.schema).empty_table()
            return pa.concat_tables([nothing, *(self._in(view.schema, b) for b in _blocks(view))])
        return _in_types(Reader(self._session(), self._locate).frame(view).toArrow(), _schema_of(view))

    def blocks(self, view: Snapshot) -> list[pa.Table]:
        """The base and the deltas of a content, each as it is."""
        return [self._rows(b) for b in _blocks(view) if b.files]

    def paths(self, view: Snapshot) -> tuple[str, ...]:
        return tuple(self._locate(f.path) for b in _blocks(view) for f in b.files)

    def write(self, rows: pa.Table | None, target: Target) -> Schema:
        """Write rows as a delta, in the columns of its channel; without any, nothing is written."""
        content = target.schema
        assert content is not None, f"the columns of {target.channel} are declared"
        if rows is None or not rows.num_rows:
            return content
        if target.merged and not isinstance(target.updates, Append):
            return write(given(self._session(), rows), target)
        shaped = _shaped(rows, target)
        if not target.directory.startswith("/"):
            return write(given(self._session(), shaped), target)
        _check(shaped, content, target)
        directory = Path(fresh(target.directory))
        directory.mkdir(parents=True)
        pq.write_table(shaped, directory / "part-0.parquet", compression="zstd", write_page_checksum=True)
        target.receipt.rows = shaped.num_rows
        return content

    def _in(self, schema: Schema, block: Block) -> pa.Table:
        """The rows of a block that adds rows, in the columns of today."""
        rows, want = self._rows(block), arrow_schema(schema)
        columns = [rows[f.name] if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type) for f in want]
        return pa.table([c.cast(f.type) for c, f in zip(columns, want, strict=True)], schema=want)

    def _rows(self, block: Block) -> pa.Table:
        schema = block.schema if block.kind is Kind.BASE else block.updates.delta_schema(block.schema)
        paths = [self._locate(f.path) for f in block.files]
        if not all(path.startswith("/") for path in paths):
            return _in_types(self._session().read.schema(str(schema)).parquet(*paths).toArrow(), schema)
        tables = [_read(path, schema) for path in paths]
        return pa.concat_tables([arrow_schema(schema).empty_table(), *tables])


def _blocks(view: Snapshot) -> list[Block]:
    return ([] if view.base is None else [view.base]) + list(view.deltas)


def _added(deltas: Sequence[Block]) -> bool:
    return all(isinstance(d.updates, Append) for d in deltas)


def _arrived(block: Block) -> int:
    """When a block arrived: what comes from outside carries it, of others it is the newest that they reflect."""
    return block.version or block.target.start() or 0


def _schema_of(view: View) -> Schema:
    match view:
        case Snapshot():
            return view.schema
        case Chain():
            return view.updates.delta_schema(view.schema)
        case Difference():
            return view.updates.delta_schema(view.after.schema)
        case Converted():
            return Signed().delta_schema(view.chain.schema)


def _read(path: str, schema: Schema) -> pa.Table:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return _in_types(file.read(columns=list(schema.names)).select(schema.names), schema)
    except (pa.ArrowException, OSError) as error:
        raise BlockDamaged(f"{path} cannot be read: {error}") from error


def _in_types(rows: pa.Table, schema: Schema) -> pa.Table:
    want = arrow_schema(schema)
    return pa.table([rows[f.name].cast(f.type) for f in want], schema=want)


def _shaped(rows: pa.Table, target: Target) -> pa.Table:
    """The columns of the block, in their order and types; what only a delta has may be left out."""
    assert target.schema is not None
    want = arrow_schema(target.physical(target.schema))
    stray = [n for n in rows.column_names if n not in want.names]
    missing = [n for n in want.names if n not in rows.column_names and n not in _OPTIONAL]
    if stray or missing:
        found, expected = ", ".join(rows.column_names), ", ".join(want.names)
        raise BadInput(f"channel {target.channel} expects the columns {expected}; the task gave {found}")
    return pa.table([_typed(rows, f, target) for f in want], schema=want)


_OPTIONAL = {COUNT: 1, DELETED: None}
"""Columns that a task may leave out of a delta, and what is in them then."""


def _typed(rows: pa.Table, wanted: pa.Field, target: Target) -> pa.ChunkedArray | pa.Array:
    try:
        return _column(rows, wanted)
    except pa.ArrowInvalid as error:
        raise BadInput(
            f"channel {target.channel}: what the task gave for column {wanted.name} does not fit its type {wanted.type}"
        ) from error


def _column(rows: pa.Table, wanted: pa.Field) -> pa.ChunkedArray | pa.Array:
    if wanted.name in rows.column_names:
        return rows[wanted.name].cast(wanted.type)
    return pa.repeat(pa.scalar(_OPTIONAL[wanted.name], wanted.type), rows.num_rows)


def _check(rows: pa.Table, content: Schema, target: Target) -> None:
    """Hold rows to NOT NULL columns and the key, as Spark's way of writing does."""
    live = rows.filter(pc.invert(pc.fill_null(rows[DELETED], False))) if DELETED in rows.column_names else rows
    for field in content:
        if not field.nullable and live[field.name].null_count:
            raise BadInput(f"column {field.name} of channel {target.channel} is NOT NULL, but a row has NULL")
    key = list(target.updates.key) if isinstance(target.updates, Upsert | Increment) else []
    if key and rows.group_by(key).aggregate([]).num_rows < rows.num_rows:
        raise BadInput(
            f"channel {target.channel}: its key is {', '.join(key)}, but two rows agree on it; make them one"
        )
