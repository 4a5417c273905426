"""Rows in the driver's memory, and rows in files that the driver can read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import NullType, StructType


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows in the driver's memory, and their Spark types."""

    table: pa.Table
    struct: StructType

    def select_columns(self, names: Sequence[str]) -> Batch:
        return Batch(self.table.select(list(names)), StructType([self.struct[n] for n in names]))


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of Parquet files, each with its block's number in `order`; columns that are not `stored` are NULL."""

    files: tuple[tuple[int, str], ...]
    struct: StructType
    stored: frozenset[str]
    order: str | None = None


class ColumnCache:
    """Reads columns of small files, and keeps those that were read last. Files never change."""

    def __init__(self, limit: int) -> None:
        """`limit`: the bytes that it may keep."""
        self.limit = limit
        self._bytes = 0
        self._tables: OrderedDict[tuple[str, frozenset[str]], pa.Table] = OrderedDict()  # by path and columns
        self._lock = threading.Lock()

    def read_rows(self, rows: StoredRows) -> Batch:
        """The rows in memory. For few rows this is quicker than a scan by the engine; Arrow verifies checksums."""
        schema = build_arrow_schema(rows.struct)
        tables = [_shape_table(self._read_file(path, rows.stored), number, rows, schema) for number, path in rows.files]
        return Batch(pa.concat_tables([schema.empty_table(), *tables]), rows.struct)

    def _read_file(self, path: str, names: frozenset[str]) -> pa.Table:
        with self._lock:
            if (table := self._tables.get((path, names))) is not None:
                self._tables.move_to_end((path, names))
                return table
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read(columns=[n for n in file.schema_arrow.names if n in names], use_threads=False)
        with self._lock:
            if self._tables.setdefault((path, names), table) is table:
                self._bytes += table.nbytes
            while self._bytes > self.limit:
                self._bytes -= self._tables.popitem(last=False)[1].nbytes
        return table


def _shape_table(table: pa.Table, number: int, rows: StoredRows, schema: pa.Schema) -> pa.Table:
    values = {n: table.column(n) for n in table.column_names}
    values |= {rows.order: pa.repeat(pa.scalar(number, pa.int32()), len(table))}
    columns = (values[f.name] if f.name in values else pa.nulls(len(table), f.type) for f in schema)
    return pa.table([c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def to_batch(table: pa.Table, struct: StructType) -> Batch:
    """Rows in the Arrow types that Spark uses."""
    columns = [
        pa.chunked_array([pa.nulls(len(table))]) if f.dataType == NullType() else column.cast(arrow.type)
        for column, f, arrow in zip(table.columns, struct, build_arrow_schema(struct), strict=True)
    ]
    return Batch(pa.table(columns, names=struct.names), struct)


def build_arrow_schema(struct: StructType) -> pa.Schema:
    return to_arrow_schema(struct, timezone="UTC")
