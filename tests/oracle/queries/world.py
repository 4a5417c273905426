"""A project that keeps declared queries fresh through a history, held after every step to what Spark and DuckDB
make of the same content from scratch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.oracle.queries import duck, scratch
from tests.oracle.queries.case import Case, Scale
from tests.oracle.queries.compare import difference
from tests.oracle.queries.histories import Input, Insert, Step, contents
from tests.oracle.queries.reduce import reduced
from tests.oracle.queries.report import Different, rows_of

import tidemill as tm
from tidemill.algebra.program import RefreshMode
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.encoding.arrow_types import to_arrow_type
from tidemill.errors import ConfigError, TidemillError
from tidemill.model.block import BlockKind
from tidemill.model.change import Rows
from tidemill.model.schema import Schema
from tidemill.spark import programs, view_reader
from tidemill.spark.local import batches
from tidemill.spark.local import key_lookup as looking

THREADS = 4
"""A refresh of a few rows is mostly planning, which Spark does in one thread."""

Refreshes = Mapping[str, Sequence[str]]
"""The way of every refresh of each table, in their order."""


def refresh(mill: Tidemill, table: str) -> str:
    """The one place where the oracle runs a declared query: incrementally where that is possible. Returns the way."""
    try:
        run, _ = mill.run(table, variant=RefreshMode.INCREMENTAL)
    except ConfigError:  # the first run, or a query that only batch can do: then that is what users get, too
        run, _ = mill.run(table)
    return str(run.stats["tasks"][table]["variant"])


def check(
    spark: SparkSession,
    queries: Mapping[str, str],
    inputs: Sequence[Input],
    history: Sequence[Step],
    scale: Scale = Scale.SMALL,
) -> Counter[str]:
    """Keep the queries fresh through the history and compare after every step.

    Queries run in the order given; later ones may read earlier ones. Returns how many comparisons were made,
    one per query and step, by the way of the refresh before it; raises `Different` at the first that fails.
    """
    refreshes = kept_fresh(spark, Case(queries, inputs, history, scale))
    return Counter(way for ways in refreshes.values() for way in ways)


def kept_fresh(spark: SparkSession, case: Case) -> Refreshes:
    """Check a case."""
    ways: dict[str, list[str]] = {table: [] for table in case.queries}
    judge = scratch.judge(spark)
    with sized(case.scale), project(case) as mill, ThreadPoolExecutor(THREADS) as pool:
        for number, held in enumerate(contents(case.inputs, case.history)):
            for insert in case.history[number]:
                arrive(mill, case.schemas[insert.channel], insert)
            for table, way in _fresh(mill, case.until(number + 1), pool):
                ways[table].append(way)
            _compare(judge, mill, case.until(number + 1), held, pool)
    return ways


def search(spark: SparkSession, case: Case) -> Refreshes:
    """Check a case, and fail with the smallest like it that can be found in reasonable time."""
    try:
        return kept_fresh(spark, case)
    except Different as found:
        first = found
    small = reduced(first.case, lambda smaller: _goes_wrong(spark, smaller, first.kind))
    kept_fresh(spark, small)
    raise AssertionError("it failed once and then no more: what it depends on is not in the case") from first


def _goes_wrong(spark: SparkSession, case: Case, kind: str) -> bool:
    try:
        kept_fresh(spark, case)
    except Different as found:
        return found.kind == kind
    return False


def _fresh(mill: Tidemill, case: Case, pool: Executor) -> Iterator[tuple[str, str]]:
    """Refresh every table, side by side those that do not wait for each other."""
    for level in case.levels():
        runs = {table: pool.submit(refresh, mill, table) for table in level}
        for table, run in runs.items():
            try:
                yield table, run.result()
            except TidemillError as error:
                raise Different(case, table, "its run failed", str(error)) from error


def _compare(spark: SparkSession, mill: Tidemill, case: Case, held: Mapping[str, Rows], pool: Executor) -> None:
    """The two judges must agree with each other first, or they cannot judge."""
    tables = {name: to_arrow(schema, held[name]) for name, schema in case.schemas.items()}
    by_duck = pool.submit(duck.from_scratch, case.queries, tables)
    by_spark = scratch.from_scratch(spark, case.queries, tables, pool)
    kept = scratch.fetched({table: mill.read(table) for table in case.queries}, pool)
    for table in case.queries:
        made, expected = kept[table], by_spark[table]
        _hold(case, table, ("Spark from scratch", expected.rows), ("DuckDB", by_duck.result()[table]))
        _hold(case, table, ("the table", made.rows), ("Spark from scratch", expected.rows))
        if made.types != expected.types:
            raise Different(case, table, "types differ", f"the table: {made.types}\nSpark: {expected.types}")


def _hold(case: Case, table: str, left: tuple[str, Rows], right: tuple[str, Rows]) -> None:
    found = difference(left[1], right[1])
    if found:
        raise Different(case, table, f"{left[0]} and {right[0]} differ", rows_of(left[0], right[0], found))


@contextmanager
def project(case: Case) -> Iterator[Tidemill]:
    workflow = tm.Workflow("oracle")
    for channel in case.inputs:
        workflow.input(channel.name, channel.schema, updates=channel.updates)
    for name, text in case.queries.items():
        workflow.sql(name, text)
    declared = Project((workflow.declared(),))
    with TemporaryDirectory() as directory, Tidemill(Path(directory), Settings(), declared) as mill:
        mill.apply()
        assert mill.engine.quick_session is not mill.engine.spark
        yield mill


@contextmanager
def sized(scale: Scale) -> Iterator[None]:
    """Let what there is count as so large."""
    if scale is Scale.SMALL:
        yield
        return
    limits = (view_reader.is_small_change, 0, None)  # of what a reader reads by itself: nothing
    with (
        patch.object(batches, "FEW", 1),  # it is also how many rows a group of rows in a file has
        patch.object(view_reader, "COLLECTED", 1),
        patch.object(batches, "WHOLE", 1),
        patch.object(view_reader, "WORTH_IT", 0),
        patch.object(view_reader.ViewReader.__init__, "__defaults__", limits),
        patch.object(looking, "SEARCHED", 0),  # Spark looks up
        patch.object(programs, "ANEW", -1),
        patch.object(programs, "COLLECTED", -1 if scale is Scale.HUGE else programs.MAX_COLLECTED_ROWS),
    ):
        yield


def arrive(mill: Tidemill, schema: Schema, insert: Insert) -> None:
    """Insert through a file, which needs no Spark job."""
    updates = mill.catalog.read_channel(insert.channel).channel.updates
    physical = updates.build_delta_schema(schema) if insert.kind is BlockKind.DELTA else schema
    given = [f.name for f in physical if f.name in schema or any(f.name in row for row in insert.rows)]
    path = mill.directory / f"{insert.channel}.parquet"
    pq.write_table(to_arrow(physical.select_fields(given), insert.rows), path)
    mill.insert(insert.channel, path, kind=insert.kind)


def to_arrow(schema: Schema, rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=pa.schema([(f.name, to_arrow_type(f.data_type)) for f in schema]))
