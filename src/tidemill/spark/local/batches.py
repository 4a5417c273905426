"""Local batches: the driver reads and writes small blocks itself.

A scan of a few thousand rows costs Spark a task for each file, and a join with it does not know its size. Read on the
driver and passed to Spark as a local relation, it avoids both.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, NullType, StructField, StructType

from tidemill.algebra.operators import ORDER, BlockScan
from tidemill.model.block import Block
from tidemill.ports.engine import WriteTarget
from tidemill.spark.block_writer import build_data_path
from tidemill.spark.parquet import read_parquet
from tidemill.spark.types import is_plain_type, parse_ddl, to_nullable_ddl

MAX_RELATION_ROWS = 8_000
"""Rows up to which the driver reads blocks: optimising costs about a millisecond more for each thousand of them."""

MAX_SINGLE_TASK_ROWS = 100_000
"""Rows up to which one task is as quick as several."""

MAX_SNAPSHOT_ROWS = 1_000_000
"""Rows up to which a full content is read and joined with a change; in a larger one the few keys are looked up."""

MAX_DRIVER_BYTES = 64 * 1024 * 1024
"""Bytes of files up to which their rows certainly fit into the driver's memory."""


class ResultTooLarge(Exception):
    """The result of Spark exceeds the limit of data sent to the driver."""


@dataclass(frozen=True, slots=True)
class LocalBatch:
    """Rows in the driver's memory, and their Spark types."""

    table: pa.Table
    struct: StructType

    @classmethod
    def from_frame(cls, frame: DataFrame) -> LocalBatch:
        """The collected rows of a frame. Timestamps are in UTC, independently of the session's time zone.

        All columns become nullable, because a join may introduce NULLs.
        """
        rows = _collect_frame(frame)
        zoned = [(i, f) for i, f in enumerate(rows.schema) if pa.types.is_timestamp(f.type) and f.type.tz]
        for i, field in zoned:
            rows = rows.set_column(i, field.name, rows.column(i).cast(pa.timestamp("us", "UTC")))
        return cls(rows, StructType([StructField(f.name, f.dataType) for f in frame.schema]))

    def to_frame(self, spark: SparkSession) -> DataFrame:
        return create_frame(spark, self.table, self.struct)

    def select_columns(self, names: Sequence[str]) -> LocalBatch:
        return LocalBatch(self.table.select(list(names)), StructType([self.struct[n] for n in names]))

    def add_column(self, field: StructField, values: pa.Array | pa.ChunkedArray) -> LocalBatch:
        return LocalBatch(self.table.append_column(field.name, values), StructType([*self.struct.fields, field]))


def _collect_frame(frame: DataFrame) -> pa.Table:
    try:
        return frame.toArrow()
    except Exception as error:
        if "spark.driver.maxResultSize" in str(error):
            raise ResultTooLarge(str(error)) from error
        raise


def create_frame(spark: SparkSession, rows: pa.Table, struct: StructType | None = None) -> DataFrame:
    """A frame of local rows. Spark reads a table chunk by chunk, and stops at the first empty one, so chunks are
    combined.
    """
    return spark.createDataFrame(rows.combine_chunks() if rows.num_rows or struct is None else [], struct)


class LocalRelations:
    """Passes local rows to Spark: as a local relation, or as a file if they are too many to be part of a plan."""

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self._spark = spark
        self._scratch = scratch
        self._numbers = count()

    def create_frame(self, rows: LocalBatch) -> DataFrame:
        untyped = any(isinstance(f.dataType, NullType) for f in rows.struct)  # a file cannot have such a column
        if rows.table.num_rows <= MAX_RELATION_ROWS or untyped:
            return rows.to_frame(self._spark)
        self._scratch.mkdir(parents=True, exist_ok=True)
        path = self._scratch / f"{next(self._numbers)}.parquet"
        pq.write_table(
            rows.table, path, compression="none", row_group_size=MAX_SINGLE_TASK_ROWS, write_page_checksum=True
        )
        return read_parquet(self._spark, rows.struct, [str(path)])

    def close(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)


def has_few_rows(blocks: Iterable[Block], rows: int) -> bool:
    """Whether there are at most so many rows, and the driver can hold them."""
    items = list(blocks)
    return sum(b.rows for b in items) <= rows and sum(b.bytes for b in items) <= MAX_DRIVER_BYTES


def read_blocks(scan: BlockScan, locate: Callable[[str], str]) -> LocalBatch | None:
    """The rows of a scan; None if the driver cannot read them: remote files, and types that Arrow does not support."""
    names = [n for n in scan.schema.names if n in scan.columns]
    stored = scan.stored_schema.select_fields(n for n in names if n in scan.stored_schema)
    if not stored.has_same_shape(scan.schema.select_fields(names)):
        return None
    files = [[locate(f.path) for f in b.files] for b in scan.blocks]
    struct = parse_ddl(to_nullable_ddl(stored))
    if not is_plain_type(struct) or not all(path.startswith("/") for group in files for path in group):
        return None
    try:
        arrow = build_arrow_schema(struct)
        tables = [_read_file(path, arrow, n) for n, group in enumerate(files, scan.first) for path in group]
    except (pa.ArrowException, OSError, PySparkException):  # Spark will report a problem with the files, if any
        return None
    rows = pa.concat_tables([_number_rows(arrow.empty_table(), 0), *tables])
    order = StructField(ORDER, IntegerType())
    return LocalBatch(rows, StructType([*struct.fields, order])).select_columns(scan.columns)


def write_batch(columns: Iterable[pa.ChunkedArray], struct: StructType, target: WriteTarget) -> None:
    """Write rows as the file of a block; no file without rows."""
    target.receipt.rows = write_file(columns, struct, Path(build_data_path(target.directory)))


def write_file(columns: Iterable[pa.ChunkedArray], struct: StructType, directory: Path) -> int:
    """Write rows as a file, if there are any; returns their number."""
    arrow = build_arrow_schema(struct)
    table = pa.table([c.cast(f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow)
    if table.num_rows:
        directory.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, directory / "part-0.parquet", compression="zstd", write_page_checksum=True)
    return int(table.num_rows)


def build_arrow_schema(struct: StructType) -> pa.Schema:
    return to_arrow_schema(struct, timezone="UTC")


def _read_file(path: str, schema: pa.Schema, number: int) -> pa.Table:
    """The columns of a file; a column that it lacks is NULL."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        names = [n for n in schema.names if n in file.schema_arrow.names]
        rows = file.read(columns=names or None)
    columns = [rows.column(f.name).cast(f.type) if f.name in names else pa.nulls(len(rows), f.type) for f in schema]
    return _number_rows(pa.table(columns, schema=schema), number)


def _number_rows(rows: pa.Table, number: int) -> pa.Table:
    return rows.append_column(ORDER, pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows))
