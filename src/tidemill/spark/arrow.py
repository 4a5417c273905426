"""Views as Arrow tables and Arrow tables as blocks, without Spark if files are local and no merge is needed."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tidemill.encoding.arrow_types import to_arrow_schema
from tidemill.errors import BadInput, BlockDamaged
from tidemill.model.block import Block, BlockKind
from tidemill.model.change import COUNT, DELETED, Append, Increment, Signed, Upsert
from tidemill.model.error_summary import summarize_error
from tidemill.model.schema import Schema
from tidemill.model.view import ConvertedDelta, DeltaChain, Snapshot, SnapshotDiff, View, list_blocks
from tidemill.ports.engine import WriteTarget
from tidemill.spark.batches import create_frame, write_table
from tidemill.spark.block_reader import BlockReader
from tidemill.spark.block_writer import build_data_path, check_key, write_frame
from tidemill.spark.local_work import LocalWork
from tidemill.stream.operator import InputBlock

Session = Callable[[], SparkSession]
"""The session, started on first use."""


class ArrowBlockIO:
    """Reads and writes Arrow tables for tasks that run on the driver."""

    def __init__(self, session: Session, work: LocalWork) -> None:
        self._session = session
        self._work = work

    def read_new_rows(self, view: View) -> list[InputBlock]:
        """The new rows, block by block if blocks only add rows; at least one block, which may be empty."""
        if isinstance(view, DeltaChain) and _is_append_only(view.deltas) and view.deltas:
            return [InputBlock(self._read_in_schema(view.schema, b), _find_arrival(b), b.seq) for b in view.deltas]
        blocks = list_blocks(view)
        if not blocks:
            return [InputBlock(to_arrow_schema(_build_view_schema(view)).empty_table(), 0, 0)]
        return [InputBlock(self.read_table(view), _find_arrival(blocks[-1]), blocks[-1].seq)]

    def read_table(self, view: View) -> pa.Table:
        """The rows of any view; Spark merges blocks if necessary."""
        if isinstance(view, Snapshot) and _is_append_only(view.deltas):
            empty = to_arrow_schema(view.schema).empty_table()
            return pa.concat_tables([empty, *(self._read_in_schema(view.schema, b) for b in list_blocks(view))])
        rows = BlockReader(self._session(), self._work).read_view(view).toArrow()
        return _cast_columns(rows, _build_view_schema(view))

    def read_blocks(self, view: Snapshot) -> list[pa.Table]:
        """The base and the deltas of a content, without merging."""
        return [self._read_block(b) for b in list_blocks(view) if b.files]

    def list_paths(self, view: Snapshot) -> tuple[str, ...]:
        return tuple(self._work.locate(f.path) for b in list_blocks(view) for f in b.files)

    def write_delta(self, rows: pa.Table | None, target: WriteTarget) -> Schema:
        """Write rows as a delta in the columns of its channel; without rows, no file is written."""
        content = target.schema
        assert content is not None, f"the columns of {target.channel} are declared"
        if rows is None or not rows.num_rows:
            return content
        if target.merges_into_empty and not isinstance(target.updates, Append):
            return write_frame(create_frame(self._session(), rows), target)
        shaped = _shape_rows(rows, target)
        if not target.directory.startswith("/"):
            return write_frame(create_frame(self._session(), shaped), target)
        _check_not_null(shaped, content, target)
        target.receipt.rows = write_table(shaped, Path(build_data_path(target.directory)))
        if isinstance(target.updates, Upsert | Increment) and not _has_distinct_keys(shaped, content, target):
            check_key(self._session(), content, target)
        return content

    def _read_in_schema(self, schema: Schema, block: Block) -> pa.Table:
        """The rows of an append block, in the columns of the current schema."""
        return _cast_columns(self._read_block(block), schema)

    def _read_block(self, block: Block) -> pa.Table:
        schema = block.schema if block.kind is BlockKind.BASE else block.updates.build_delta_schema(block.schema)
        paths = [self._work.locate(f.path) for f in block.files]
        if not all(path.startswith("/") for path in paths):
            return _cast_columns(self._session().read.schema(str(schema)).parquet(*paths).toArrow(), schema)
        tables = [_read_file(path, schema) for path in paths]
        return pa.concat_tables([to_arrow_schema(schema).empty_table(), *tables])


def _is_append_only(deltas: Sequence[Block]) -> bool:
    return all(isinstance(d.updates, Append) for d in deltas)


def _find_arrival(block: Block) -> int:
    """When a block arrived: external blocks carry it; for others it is the newest time that they reflect."""
    return block.version or block.target.find_start() or 0


def _build_view_schema(view: View) -> Schema:
    match view:
        case Snapshot():
            return view.schema
        case DeltaChain():
            return view.updates.build_delta_schema(view.schema)
        case SnapshotDiff():
            return view.updates.build_delta_schema(view.after.schema)
        case ConvertedDelta():
            return Signed().build_delta_schema(view.chain.schema)


def _read_file(path: str, schema: Schema) -> pa.Table:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return _cast_columns(file.read(columns=list(schema.names)).select(schema.names), schema)
    except (pa.ArrowException, OSError) as error:
        raise BlockDamaged(f"{path} cannot be read: {summarize_error(error)}") from error


def _cast_columns(rows: pa.Table, schema: Schema) -> pa.Table:
    """The rows in the columns of the schema; missing columns are NULL."""
    target = to_arrow_schema(schema)
    columns = [rows[f.name] if f.name in rows.column_names else pa.nulls(rows.num_rows) for f in target]
    return pa.table([c.cast(f.type) for c, f in zip(columns, target, strict=True)], schema=target)


def _shape_rows(rows: pa.Table, target: WriteTarget) -> pa.Table:
    """The columns of the block, in their order and types; columns that only a delta has may be missing."""
    assert target.schema is not None
    expected_schema = to_arrow_schema(target.to_physical_schema(target.schema))
    stray = [n for n in rows.column_names if n not in expected_schema.names]
    missing = [n for n in expected_schema.names if n not in rows.column_names and n not in _OPTIONAL]
    if stray or missing:
        actual, expected = ", ".join(rows.column_names), ", ".join(expected_schema.names)
        raise BadInput(f"channel {target.channel} expects the columns {expected}; the task gave {actual}")
    return pa.table([_cast_column(rows, f, target) for f in expected_schema], schema=expected_schema)


_OPTIONAL = {COUNT: 1, DELETED: None}
"""Columns that a task may omit from a delta, and their default values."""


def _cast_column(rows: pa.Table, field: pa.Field, target: WriteTarget) -> pa.ChunkedArray | pa.Array:
    if field.name not in rows.column_names:
        return pa.repeat(pa.scalar(_OPTIONAL[field.name], field.type), rows.num_rows)
    try:
        return rows[field.name].cast(field.type)
    except pa.ArrowInvalid as error:
        problem = f"the values for column {field.name} do not fit its type {field.type}"
        raise BadInput(f"channel {target.channel}: {problem}") from error


def _check_not_null(rows: pa.Table, content: Schema, target: WriteTarget) -> None:
    """Check NOT NULL columns, as writing through Spark does."""
    live = rows.filter(pc.invert(pc.fill_null(rows[DELETED], False))) if DELETED in rows.column_names else rows
    for field in content:
        if not field.nullable and live[field.name].null_count:
            raise BadInput(f"column {field.name} of channel {target.channel} is NOT NULL, but a row has NULL")


def _has_distinct_keys(rows: pa.Table, content: Schema, target: WriteTarget) -> bool:
    """Whether no two rows agree on the key; False if only Spark can tell: 0.0 = -0.0 there, texts have collations."""
    key = content.select_fields(target.updates.key)
    types = [rows.schema.field(name).type for name in key.names]
    if not all(f.is_exchangeable for f in key) or any(pa.types.is_floating(t) or pa.types.is_nested(t) for t in types):
        return False
    return len(rows.group_by(key.names).aggregate([])) == len(rows)
