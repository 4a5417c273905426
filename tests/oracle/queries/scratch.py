"""What Spark makes of queries from scratch, and how to fetch many small results at the price of few jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from tidemill.model.change import Rows
from tidemill.spark.query_sessions import remove_unused_ctes
from tidemill.spark.session import FALLBACK_SETTINGS, create_sibling_session

TOGETHER = 6
"""Results that one job fetches: planning many together takes Spark longer than planning them apart."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a frame holds, and of which types."""

    types: str
    rows: Rows


def judge(spark: SparkSession) -> SparkSession:
    """A session for tiny tables."""
    tiny = dict.fromkeys(("spark.sql.shuffle.partitions", "spark.sql.leafNodeDefaultParallelism"), "1")
    return create_sibling_session(spark, {**FALLBACK_SETTINGS, **tiny})


def from_scratch(
    spark: SparkSession, queries: Mapping[str, str], tables: Mapping[str, pa.Table], pool: Executor
) -> dict[str, Result]:
    """The result of each query over these tables; later queries may read earlier ones."""
    try:
        return _results(spark, queries, tables, pool)
    except Py4JJavaError:  # the product's second try, in which a query loses no meaning
        return _results(spark, {name: remove_unused_ctes(text) for name, text in queries.items()}, tables, pool)


def _results(
    spark: SparkSession, queries: Mapping[str, str], tables: Mapping[str, pa.Table], pool: Executor
) -> dict[str, Result]:
    frames: dict[str, DataFrame] = {}
    with _dropped(spark, [*tables, *queries]):
        for name, table in tables.items():
            spark.createDataFrame(table).createOrReplaceTempView(name)
        for name, text in queries.items():
            frames[name] = spark.sql(text)
            frames[name].createOrReplaceTempView(name)
        return fetched(frames, pool)


def fetched(frames: Mapping[str, DataFrame], pool: Executor) -> dict[str, Result]:
    """What all frames hold, a few of them with each Spark job."""
    names = list(frames)
    some = [{n: frames[n] for n in names[at : at + TOGETHER]} for at in range(0, len(names), TOGETHER)]
    return {name: result for made in pool.map(_fetched, some) for name, result in made.items()}


def _fetched(frames: Mapping[str, DataFrame]) -> dict[str, Result]:
    try:
        return _together(frames)
    except Py4JJavaError:  # Spark's optimizer fails on some unions of queries that it can do one by one
        return {name: result for name, frame in frames.items() for result in _together({name: frame}).values()}


def _together(frames: Mapping[str, DataFrame]) -> dict[str, Result]:
    """What frames hold, with one job: each frame's in a column of its own."""
    types = {name: frame.schema.simpleString() for name, frame in frames.items()}
    fetchable = {name: _to_fetchable(frame) for name, frame in frames.items()}
    boxes = {name: _loosen(frame.schema) for name, frame in fetchable.items()}
    boxed = [_boxed(name, frame, boxes) for name, frame in fetchable.items()]
    rows: dict[str, Rows] = {name: [] for name in frames}
    for record in reduce(DataFrame.union, boxed).toArrow().to_pylist():
        rows[record["frame"]].append(record[record["frame"]])
    return {name: Result(types[name], rows[name]) for name in frames}


def _boxed(name: str, frame: DataFrame, types: Mapping[str, DataType]) -> DataFrame:
    row = F.struct(*(_quote(column) for column in frame.columns))
    boxes = [(row if box == name else F.lit(None)).cast(of).alias(box) for box, of in types.items()]
    return frame.select(F.lit(name).alias("frame"), *boxes)


def _to_fetchable(frame: DataFrame) -> DataFrame:
    """The frame with values that Arrow cannot fetch, or not as they are, as text."""
    return frame.select(*(_to_text(F.col(_quote(f.name)), f.dataType).alias(f.name) for f in frame.schema))


def _to_text(column: Column, kind: DataType) -> Column:
    match kind:
        case VariantType():
            return F.to_json(column)
        case YearMonthIntervalType():
            return column.cast("string")
    return column


def _loosen(kind: DataType) -> DataType:
    """The type with NULLs admitted everywhere, as Arrow wants it of the boxes that are empty."""
    match kind:
        case StructType():
            return StructType([StructField(f.name, _loosen(f.dataType)) for f in kind.fields])
        case ArrayType():
            return ArrayType(_loosen(kind.elementType))
        case MapType():
            return MapType(_loosen(kind.keyType), _loosen(kind.valueType))
    return kind


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@contextmanager
def _dropped(spark: SparkSession, views: Sequence[str]) -> Iterator[None]:
    try:
        yield
    finally:
        for view in views:
            spark.catalog.dropTempView(view)
