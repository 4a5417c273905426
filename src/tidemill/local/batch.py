"""Rows in the driver's memory, and rows in files that the driver can read."""

from __future__ import annotations

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


def read_stored_rows(rows: StoredRows) -> Batch:
    """The rows in memory. For few rows this is quicker than a scan by the engine; Arrow verifies checksums itself."""
    schema = build_arrow_schema(rows.struct)
    tables = [_read_file(path, number, rows, schema) for number, path in rows.files]
    return Batch(pa.concat_tables([schema.empty_table(), *tables]), rows.struct)


def _read_file(path: str, number: int, rows: StoredRows, schema: pa.Schema) -> pa.Table:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        names = [n for n in schema.names if n in rows.stored and n in file.schema_arrow.names]
        table, count = file.read(columns=names, use_threads=False), file.metadata.num_rows
    missing = {f.name: pa.nulls(count, f.type) for f in schema if f.name not in names}
    values = missing | {n: table.column(n) for n in names}
    values |= {rows.order: pa.repeat(pa.scalar(number, pa.int32()), count)}
    return pa.table([values[f.name].cast(f.type) for f in schema], schema=schema)


def to_batch(table: pa.Table, struct: StructType) -> Batch:
    """Rows in the Arrow types that Spark uses."""
    columns = [
        pa.chunked_array([pa.nulls(len(table))]) if f.dataType == NullType() else column.cast(arrow.type)
        for column, f, arrow in zip(table.columns, struct, build_arrow_schema(struct), strict=True)
    ]
    return Batch(pa.table(columns, names=struct.names), struct)


def build_arrow_schema(struct: StructType) -> pa.Schema:
    return to_arrow_schema(struct, timezone="UTC")
