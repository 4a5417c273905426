"""Local batches: rows that the driver collects from Spark, passes to it and writes."""

import shutil
from collections.abc import Iterable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import NullType, StructField, StructType

from tidemill.local.batch import Batch, build_arrow_schema
from tidemill.model.block import Block
from tidemill.ports.engine import EngineLimits, WriteTarget
from tidemill.spark.block_writer import build_data_path
from tidemill.spark.parquet import read_parquet
from tidemill.spark.types import create_empty_frame

ROW_GROUP_ROWS = 500_000
"""Rows of a Parquet row group: with Parquet's default size, a file of narrow rows would be a single group."""


def collect_batch(frame: DataFrame) -> Batch | None:
    """The rows of a frame, with timestamps in UTC and nullable columns: a join may introduce NULLs.

    None if they exceed the limit of data sent to the driver: a few rows may become many.
    """
    try:
        rows = frame.toArrow()
    except Exception as error:
        if "spark.driver.maxResultSize" in str(error):
            return None
        raise
    zoned = [(i, f) for i, f in enumerate(rows.schema) if pa.types.is_timestamp(f.type) and f.type.tz]
    for i, field in zoned:
        rows = rows.set_column(i, field.name, rows.column(i).cast(pa.timestamp("us", "UTC")))
    return Batch(rows, StructType([StructField(f.name, f.dataType) for f in frame.schema]))


def create_frame(spark: SparkSession, rows: pa.Table, struct: StructType | None = None) -> DataFrame:
    """A frame of local rows; chunks are combined, because Spark stops reading a table at the first empty one."""
    if not rows.num_rows and struct is not None:
        return create_empty_frame(spark, struct)
    return spark.createDataFrame(rows.combine_chunks(), struct)


class LocalRelations:
    """Passes local rows to Spark: as a local relation, or as a file if they are too many to be part of a plan."""

    def __init__(self, spark: SparkSession, scratch: Path, limits: EngineLimits) -> None:
        self._spark = spark
        self._scratch = scratch
        self._limits = limits
        self._numbers = count()

    def create_frame(self, rows: Batch) -> DataFrame:
        untyped = any(isinstance(f.dataType, NullType) for f in rows.struct)  # a file cannot have such a column
        if rows.table.num_rows <= self._limits.relation_rows or untyped:
            return create_frame(self._spark, rows.table, rows.struct)
        self._scratch.mkdir(parents=True, exist_ok=True)
        path = self._scratch / f"{next(self._numbers)}.parquet"
        options = {"compression": "none", "row_group_size": self._limits.single_task_rows, "write_page_checksum": True}
        pq.write_table(rows.table, path, **options)
        return read_parquet(self._spark, rows.struct, [str(path)])

    def close(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)


def count_rows(blocks: Iterable[Block]) -> int:
    return sum(b.rows for b in blocks)


def write_batch(columns: Iterable[pa.ChunkedArray], struct: StructType, target: WriteTarget) -> None:
    """Write rows as the file of a block; no file without rows."""
    arrow = build_arrow_schema(struct)
    table = pa.table([c.cast(f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow)
    target.receipt.rows = write_table(table, Path(build_data_path(target.directory)))


def write_table(table: pa.Table, directory: Path, files: int = 1) -> int:
    """Write rows as that many files, if there are enough; returns the number of rows."""
    options = {"compression": "zstd", "write_page_checksum": True, "row_group_size": ROW_GROUP_ROWS}
    length = -(-table.num_rows // files)
    for number, start in enumerate(range(0, table.num_rows, length or 1)):
        directory.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(start, length), directory / f"part-{number}.parquet", **options)
    return int(table.num_rows)
