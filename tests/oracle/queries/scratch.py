"""Spark's results of queries from scratch, fetched with few jobs for many small results."""

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
from tidemill.spark.session import FALLBACK_SETTINGS, create_sibling_session

RESULTS_PER_JOB = 6
"""Results fetched by one job: planning many together takes Spark longer than planning them separately."""


@dataclass(frozen=True, slots=True)
class Result:
    """The rows and types of a frame."""

    types: str
    rows: Rows


def open_session(spark: SparkSession) -> SparkSession:
    """A session for tiny tables."""
    tiny = dict.fromkeys(("spark.sql.shuffle.partitions", "spark.sql.leafNodeDefaultParallelism"), "1")
    return create_sibling_session(spark, {**FALLBACK_SETTINGS, **tiny})


def from_scratch(
    spark: SparkSession, queries: Mapping[str, str], tables: Mapping[str, pa.Table], pool: Executor
) -> dict[str, Result]:
    """The result of each query over these tables; later queries may read earlier ones."""
    try:
        return _run_queries(spark, queries, tables, pool)
    except Py4JJavaError:
        with _inline_ctes(spark):
            return _run_queries(spark, queries, tables, pool, one_by_one=True)


@contextmanager
def _inline_ctes(spark: SparkSession) -> Iterator[None]:
    """Spark replaces names of WITH by their queries, and does not fail on unused ones."""
    spark.conf.set("spark.sql.legacy.ctePrecedencePolicy", "LEGACY")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.legacy.ctePrecedencePolicy")


def _run_queries(
    spark: SparkSession,
    queries: Mapping[str, str],
    tables: Mapping[str, pa.Table],
    pool: Executor,
    *,
    one_by_one: bool = False,
) -> dict[str, Result]:
    """The results. With `one_by_one`, queries read the rows of earlier ones, as tables do, not their plans."""
    frames: dict[str, DataFrame] = {}
    with _drop_views(spark, [*tables, *queries]):
        for name, table in tables.items():
            spark.createDataFrame(table).createOrReplaceTempView(name)
        for name, text in queries.items():
            frames[name] = spark.sql(text).localCheckpoint() if one_by_one else spark.sql(text)
            frames[name].createOrReplaceTempView(name)
        return fetch_results(frames, pool)


def fetch_results(frames: Mapping[str, DataFrame], pool: Executor) -> dict[str, Result]:
    """The results of all frames, several per Spark job."""
    names = list(frames)
    groups = [{n: frames[n] for n in names[i : i + RESULTS_PER_JOB]} for i in range(0, len(names), RESULTS_PER_JOB)]
    return {name: result for results in pool.map(_fetch_group, groups) for name, result in results.items()}


def _fetch_group(frames: Mapping[str, DataFrame]) -> dict[str, Result]:
    try:
        return _fetch_together(frames)
    except Py4JJavaError:  # Spark's optimizer fails on some unions of queries that it can run one by one
        return {name: result for name, frame in frames.items() for result in _fetch_together({name: frame}).values()}


def _fetch_together(frames: Mapping[str, DataFrame]) -> dict[str, Result]:
    """The results of frames with one job: each frame's rows in a separate column."""
    types = {name: frame.schema.simpleString() for name, frame in frames.items()}
    fetchable = {name: _to_fetchable(frame) for name, frame in frames.items()}
    boxes = {name: _loosen(frame.schema) for name, frame in fetchable.items()}
    boxed = [_box_rows(name, frame, boxes) for name, frame in fetchable.items()]
    rows: dict[str, Rows] = {name: [] for name in frames}
    for record in reduce(DataFrame.union, boxed).toArrow().to_pylist():
        rows[record["frame"]].append(record[record["frame"]])
    return {name: Result(types[name], rows[name]) for name in frames}


def _box_rows(name: str, frame: DataFrame, types: Mapping[str, DataType]) -> DataFrame:
    row = F.struct(*(_quote(column) for column in frame.columns))
    boxes = [(row if box == name else F.lit(None)).cast(of).alias(box) for box, of in types.items()]
    return frame.select(F.lit(name).alias("frame"), *boxes)


def _to_fetchable(frame: DataFrame) -> DataFrame:
    """The frame with values that Arrow cannot represent exactly converted to text."""
    return frame.select(*(_to_text(F.col(_quote(f.name)), f.dataType).alias(f.name) for f in frame.schema))


def _to_text(column: Column, kind: DataType) -> Column:
    match kind:
        case VariantType():
            return F.to_json(column)
        case YearMonthIntervalType():
            return column.cast("string")
    return column


def _loosen(kind: DataType) -> DataType:
    """The type with NULLs allowed everywhere, as Arrow requires for empty boxes."""
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
def _drop_views(spark: SparkSession, views: Sequence[str]) -> Iterator[None]:
    try:
        yield
    finally:
        for view in views:
            spark.catalog.dropTempView(view)
