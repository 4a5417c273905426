"""What the driver does itself: it reads small blocks, and writes them.

A scan of a few thousand rows costs Spark a task for each file, and whoever joins with it does not know how small it
is. Read here and given to Spark as a local relation, it costs neither.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, NullType, StructField, StructType

from tidemill.model.block import Block
from tidemill.ports.engine import WriteTarget
from tidemill.spark.block_writer import build_data_path
from tidemill.spark.parquet import read_parquet
from tidemill.spark.types import is_plain_type

ROWS = 8_000
"""Rows up to which blocks are read here: optimising costs about a millisecond more for each thousand of them."""

FEW = 100_000
"""Rows up to which one task is as quick as several."""

WHOLE = 1_000_000
"""Rows up to which a content is read whole and joined with a change; in a larger one the few keys are looked up."""

LIGHT = 64 * 1024 * 1024
"""Bytes of files, up to which their rows are sure to fit into the memory of the driver."""


class ResultTooLarge(Exception):
    """What Spark computed is more than the driver may be sent."""


@dataclass(frozen=True, slots=True)
class LocalBatch:
    """Rows that the driver holds, and their types as Spark calls them."""

    table: pa.Table
    struct: StructType

    @classmethod
    def from_frame(cls, frame: DataFrame) -> LocalBatch:
        """What Spark computes. Instants are UTC's, in whatever zone the session shows them.

        That a column is never NULL is forgotten: a join may make it so.
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
    """Rows that the driver holds, for Spark. It reads a table chunk by chunk, and stops at the first without rows."""
    return spark.createDataFrame(rows.combine_chunks() if rows.num_rows or struct is None else [], struct)


class LocalRelations:
    """Gives Spark rows that the driver holds: a local relation, or a file if they are too many to be part of a plan."""

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self._spark = spark
        self._scratch = scratch
        self._numbers = count()

    def create_frame(self, rows: LocalBatch) -> DataFrame:
        untyped = any(isinstance(f.dataType, NullType) for f in rows.struct)  # no column of a file
        if rows.table.num_rows <= ROWS or untyped:
            return rows.to_frame(self._spark)
        self._scratch.mkdir(parents=True, exist_ok=True)
        path = self._scratch / f"{next(self._numbers)}.parquet"
        pq.write_table(rows.table, path, compression="none", row_group_size=FEW, write_page_checksum=True)
        return read_parquet(self._spark, rows.struct, [str(path)])

    def close(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)


def has_few_rows(blocks: Iterable[Block], rows: int) -> bool:
    """Are there at most so many rows, and can the driver hold them?"""
    found = list(blocks)
    return sum(b.rows for b in found) <= rows and sum(b.bytes for b in found) <= LIGHT


def read_frame(
    spark: SparkSession, files: Sequence[Sequence[str]], ddl: str, order: str | None = None
) -> DataFrame | None:
    """What `held` holds, given to Spark."""
    rows = read_batch(files, ddl, order)
    return None if rows is None else rows.to_frame(spark)


def read_batch(files: Sequence[Sequence[str]], ddl: str, order: str | None = None) -> LocalBatch | None:
    """The rows of groups of files, with the number of their group, from 1 on, in the column `order` if there is one.

    None if they are not for the driver to read: remote files, and what Arrow cannot.
    """
    if not all(path.startswith("/") for group in files for path in group):
        return None
    wanted = parse_ddl(ddl)
    if not is_plain_type(wanted):
        return None
    struct = StructType([*wanted.fields]).add(order, IntegerType()) if order else wanted
    try:
        arrow = build_arrow_schema(wanted)
        tables = [_read_file(path, arrow, number if order else None) for number, g in enumerate(files, 1) for path in g]
    except (pa.ArrowException, OSError, PySparkException):  # Spark will say what is wrong with the files, if anything
        return None
    return LocalBatch(pa.concat_tables(tables).rename_columns(struct.names), struct)


def write_batch(columns: Iterable[pa.ChunkedArray], struct: StructType, target: WriteTarget) -> None:
    """Write rows as the file of a block; without any there is none."""
    target.receipt.rows = write_file(columns, struct, Path(build_data_path(target.directory)))


def write_file(columns: Iterable[pa.ChunkedArray], struct: StructType, directory: Path) -> int:
    """Write rows as a file, if there are any; returns how many there are."""
    arrow = build_arrow_schema(struct)
    table = pa.table([c.cast(f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow)
    if table.num_rows:
        directory.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, directory / "part-0.parquet", compression="zstd", write_page_checksum=True)
    return int(table.num_rows)


def build_arrow_schema(struct: StructType) -> pa.Schema:
    return to_arrow_schema(struct, timezone="UTC")


@lru_cache(maxsize=1024)
def parse_ddl(ddl: str) -> StructType:
    struct = StructType.fromDDL(ddl)
    assert isinstance(struct, StructType)
    return struct


def _read_file(path: str, wanted: pa.Schema, number: int | None) -> pa.Table:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        found = file.read(columns=[n for n in wanted.names if n in file.schema_arrow.names] or None)
    have = {name: position for position, name in enumerate(found.column_names)}
    columns = [
        found.column(have[f.name]).cast(f.type) if f.name in have else pa.nulls(found.num_rows, f.type) for f in wanted
    ]
    names = list(wanted.names)
    if number is not None:
        columns.append(pa.chunked_array([pa.array([number] * found.num_rows, pa.int32())]))
        names.append("")
    return pa.table(columns, names=names)
