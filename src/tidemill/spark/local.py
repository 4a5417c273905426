"""What the driver does itself: it reads small blocks, and looks few keys up in blocks of moderate size.

A scan of a few thousand rows costs Spark a task for each file, and whoever joins with it does not know how small it
is. Read here and given to Spark as a local relation, it costs neither. To find few rows among millions Spark makes rows
of all of them; Arrow compares columns, and takes a third of the time, or a tenth where the keys are many.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, NullType, StructType

from tidemill.model.block import Block

ROWS = 8_000
"""Rows up to which blocks are read here: optimising costs about a millisecond more for each thousand of them."""

FEW = 100_000
"""Rows that are read again rather than kept."""


SEARCHED = 256 << 20
"""Bytes of files up to which keys are looked up here: more is for all of Spark's executors."""

_EXACT = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
)
"""Types whose values Arrow holds for equal exactly where Spark does: not floats, whose -0.0 it tells from 0.0."""


class Hand:
    """Gives Spark rows that the driver holds: a local relation, or a file if they are too many to be part of a plan."""

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self._spark = spark
        self._scratch = scratch
        self._numbers = count()

    def frame(self, rows: pa.Table, struct: StructType) -> DataFrame:
        untyped = any(isinstance(f.dataType, NullType) for f in struct)  # no column of a file
        if rows.num_rows <= ROWS or untyped:
            return self._spark.createDataFrame(rows, struct)
        self._scratch.mkdir(parents=True, exist_ok=True)
        path = self._scratch / f"{next(self._numbers)}.parquet"
        pq.write_table(rows, path, compression="none", row_group_size=FEW, write_page_checksum=True)
        return self._spark.read.schema(struct).parquet(str(path))

    def close(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)


def searchable(blocks: Iterable[Block]) -> bool:
    """Are there rows, and few enough bytes of them that the driver had better look through them itself?"""
    return 0 < sum(b.bytes for b in blocks) <= SEARCHED


def files(paths: Sequence[str], wanted: StructType) -> ds.Dataset | None:
    """The rows of files, to be looked through; None if they are remote."""
    if not all(path.startswith("/") for path in paths):
        return None
    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.dataset(paths, arrow_schema(wanted), ds.ParquetFileFormat(default_fragment_scan_options=checked))


def found(content: ds.Dataset, keys: pa.Table, on: Sequence[tuple[str, str]]) -> pa.Table | None:
    """The rows that agree with some of the keys; None if that is for Spark to say.

    So it is where values may be equal that are not the same, or are kept in another type, and where NULL is looked
    for and found: Spark's look-ups hold it for equal to NULL, Arrow's do not.
    """
    mine = [column for column, _ in on]
    few = pa.table([keys.column(key) for _, key in on], names=mine)
    if not all(_comparable(content.schema.field(c).type, few.column(c).type) for c in mine):
        return None
    try:
        unknown = [c for c in mine if few.column(c).null_count]
        if unknown and content.count_rows(
            filter=reduce(pc.Expression.__or__, (pc.field(c).is_null() for c in unknown))
        ):
            return None
        return content.join(few.drop_null(), mine, mine, "left semi").to_table()
    except (pa.ArrowException, OSError):  # Spark will say what is wrong with the files, if anything
        return None


def _comparable(mine: pa.DataType, theirs: pa.DataType) -> bool:
    return mine == theirs and any(exact(mine) for exact in _EXACT)


def few(blocks: Iterable[Block], rows: int) -> bool:
    return sum(b.rows for b in blocks) <= rows


def read(spark: SparkSession, files: Sequence[Sequence[str]], ddl: str, order: str | None = None) -> DataFrame | None:
    """The rows of groups of files, with the number of their group, from 1 on, in the column `order` if there is one.

    None if they are not for the driver to read: remote files, and what Arrow cannot.
    """
    wanted = schema_of(ddl)
    table = rows(files, wanted, order)
    if table is None:
        return None
    struct = StructType([*wanted.fields]).add(order, IntegerType()) if order else wanted
    return spark.createDataFrame(table, struct)


def rows(files: Sequence[Sequence[str]], wanted: StructType, order: str | None = None) -> pa.Table | None:
    """What `read` gives to Spark."""
    if not all(path.startswith("/") for group in files for path in group):
        return None
    try:
        arrow = arrow_schema(wanted)
        tables = [_read(path, arrow, number if order else None) for number, g in enumerate(files, 1) for path in g]
    except (pa.ArrowException, OSError, PySparkException):  # Spark will say what is wrong with the files, if anything
        return None
    return pa.concat_tables(tables).rename_columns([*wanted.names, *([order] if order else [])])


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
