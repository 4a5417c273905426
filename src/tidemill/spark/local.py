"""Small blocks, read by the driver.

A scan of a few thousand rows costs Spark a task for each file, and whoever joins with it does not know how small it
is. Read here and given to Spark as a local relation, it costs neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StructType

from tidemill.model.block import Block

ROWS = 8_000
"""Rows up to which blocks are read here: optimising costs about a millisecond more for each thousand of them."""

FEW = 100_000
"""Rows that are read again rather than kept."""


def few(blocks: Iterable[Block], rows: int) -> bool:
    return sum(b.rows for b in blocks) <= rows


def read(spark: SparkSession, files: Sequence[Sequence[str]], ddl: str, order: str | None = None) -> DataFrame | None:
    """The rows of groups of files, with the number of their group, from 1 on, in the column `order` if there is one.

    None if they are not for the driver to read: remote files, and what Arrow cannot.
    """
    if not all(path.startswith("/") for group in files for path in group):
        return None
    try:
        wanted = schema_of(ddl)
        arrow = arrow_schema(wanted)
        tables = [_read(path, arrow, number if order else None) for number, g in enumerate(files, 1) for path in g]
    except (pa.ArrowException, OSError, PySparkException):  # Spark will say what is wrong with the files, if anything
        return None
    struct = StructType([*wanted.fields]).add(order, IntegerType()) if order else wanted
    return spark.createDataFrame(pa.concat_tables(tables).rename_columns(struct.names), struct)


def write(columns: Iterable[pa.ChunkedArray], struct: StructType, directory: Path) -> None:
    """Write rows as the file of a block; without any there is none."""
    arrow = arrow_schema(struct)
    table = pa.table([c.cast(f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow)
    if table.num_rows:
        directory.mkdir(parents=True)
        pq.write_table(table, directory / "part-0.parquet", compression="zstd", write_page_checksum=True)


def arrow_schema(struct: StructType) -> pa.Schema:
    return to_arrow_schema(struct, timezone="UTC")


@lru_cache(maxsize=1024)
def schema_of(ddl: str) -> StructType:
    struct = StructType.fromDDL(ddl)
    assert isinstance(struct, StructType)
    return struct


def _read(path: str, wanted: pa.Schema, number: int | None) -> pa.Table:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        found = file.read()
    have = {name: position for position, name in enumerate(found.column_names)}
    columns = [
        found.column(have[f.name]).cast(f.type) if f.name in have else pa.nulls(found.num_rows, f.type) for f in wanted
    ]
    names = list(wanted.names)
    if number is not None:
        columns.append(pa.chunked_array([pa.array([number] * found.num_rows, pa.int32())]))
        names.append("")
    return pa.table(columns, names=names)
