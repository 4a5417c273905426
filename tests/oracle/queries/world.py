"""A project that refreshes declared queries through a history; after every step the tables are compared with the
results of Spark and DuckDB on the same content from scratch."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.oracle.queries import duck, scratch
from tests.oracle.queries.case import Case, Scale
from tests.oracle.queries.compare import difference
from tests.oracle.queries.histories import Input, Insert, Step, contents
from tests.oracle.queries.reduce import reduce_case
from tests.oracle.queries.report import Different, format_difference

import tidemill as tm
from tidemill.algebra.program import RefreshMode
from tidemill.app.project import Project
from tidemill.app.settings import EngineSettings, RunSettings, Settings
from tidemill.app.wiring import Tidemill
from tidemill.encoding.arrow_types import to_arrow_type
from tidemill.errors import ConfigError, TidemillError
from tidemill.model.block import BlockKind
from tidemill.model.change import Rows
from tidemill.model.schema import Schema

THREADS = 4
"""A refresh of a few rows is mostly planning, which Spark does in one thread."""

Refreshes = Mapping[str, Sequence[str]]
"""The modes of each table's refreshes, in order."""


def refresh(mill: Tidemill, table: str) -> str:
    """Run a declared query, incrementally if possible; the oracle's only call of `run`. Returns the mode."""
    try:
        run, _ = mill.run(table, variant=RefreshMode.INCREMENTAL)
    except ConfigError:  # the first run, or a query that only runs as batch
        run, _ = mill.run(table)
    return str(run.stats["tasks"][table]["variant"])


def check(
    spark: SparkSession,
    queries: Mapping[str, str],
    inputs: Sequence[Input],
    history: Sequence[Step],
    scale: Scale = Scale.SMALL,
) -> Counter[str]:
    """Refresh the queries through the history and compare after every step.

    Queries run in the given order; later ones may read earlier ones. Returns the number of comparisons,
    one per query and step, by refresh mode; raises `Different` at the first that fails.
    """
    refreshes = refresh_and_compare(spark, Case(queries, inputs, history, scale))
    return Counter(mode for modes in refreshes.values() for mode in modes)


def refresh_and_compare(spark: SparkSession, case: Case) -> Refreshes:
    """Check a case."""
    modes: dict[str, list[str]] = {table: [] for table in case.queries}
    reference_spark = scratch.open_session(spark)
    with project(case) as mill, ThreadPoolExecutor(THREADS) as pool:
        for number, channel_contents in enumerate(contents(case.inputs, case.history)):
            for insert in case.history[number]:
                insert_rows(mill, case.schemas[insert.channel], insert)
            for table, mode in _refresh_all(mill, case.until(number + 1), pool):
                modes[table].append(mode)
            _compare(reference_spark, mill, case.until(number + 1), channel_contents, pool)
    return modes


def search(spark: SparkSession, case: Case) -> Refreshes:
    """Check a case; on failure, fail with the smallest similar case that is found in reasonable time."""
    try:
        return refresh_and_compare(spark, case)
    except Different as found:
        first = found
    small = reduce_case(first.case, lambda smaller: _fails_alike(spark, smaller, first.kind))
    refresh_and_compare(spark, small)
    raise AssertionError("the failure cannot be reproduced: it depends on something that is not in the case") from first


def _fails_alike(spark: SparkSession, case: Case, kind: str) -> bool:
    try:
        refresh_and_compare(spark, case)
    except Different as found:
        return found.kind == kind
    return False


def _refresh_all(mill: Tidemill, case: Case, pool: Executor) -> Iterator[tuple[str, str]]:
    """Refresh every table; tables that do not read each other run concurrently."""
    for level in case.levels():
        runs = {table: pool.submit(refresh, mill, table) for table in level}
        for table, run in runs.items():
            try:
                yield table, run.result()
            except TidemillError as error:
                raise Different(case, table, "its run failed", str(error)) from error


def _compare(
    spark: SparkSession, mill: Tidemill, case: Case, channel_contents: Mapping[str, Rows], pool: Executor
) -> None:
    """Compare the tables with both engines, which must first agree with each other.

    Where nothing is read on the driver, `Tidemill.rows` reads the frames of `Tidemill.read`: only these are compared.
    """
    is_local = "off" not in (SCALES[case.scale].local, os.environ.get("TIDEMILL_ENGINE_LOCAL"))
    tables = {name: to_arrow(schema, channel_contents[name]) for name, schema in case.schemas.items()}
    by_duck = pool.submit(duck.from_scratch, case.queries, tables)
    by_spark = scratch.from_scratch(spark, case.queries, tables, pool)
    results = scratch.fetch_results({table: mill.read(table) for table in case.queries}, pool)
    read_rows = dict(zip(case.queries, pool.map(mill.rows, case.queries), strict=True)) if is_local else {}
    for table in case.queries:
        actual, expected = results[table], by_spark[table]
        _compare_rows(case, table, ("Spark from scratch", expected.rows), ("DuckDB", by_duck.result()[table]))
        _compare_rows(case, table, ("the table", actual.rows), ("Spark from scratch", expected.rows))
        if is_local:
            _compare_rows(case, table, ("Tidemill.rows", read_rows[table]), ("Spark from scratch", expected.rows))
        if actual.types != expected.types:
            raise Different(case, table, "types differ", f"the table: {actual.types}\nSpark: {expected.types}")


def _compare_rows(case: Case, table: str, left: tuple[str, Rows], right: tuple[str, Rows]) -> None:
    rows = difference(left[1], right[1])
    if rows:
        raise Different(case, table, f"{left[0]} and {right[0]} differ", format_difference(left[0], right[0], rows))


@contextmanager
def project(case: Case) -> Iterator[Tidemill]:
    workflow = tm.Workflow("oracle")
    for channel in case.inputs:
        workflow.input(channel.name, channel.schema, updates=channel.updates)
    for name, text in case.queries.items():
        workflow.sql(name, text)
    declared = Project((workflow.build_spec(),))
    with (
        TemporaryDirectory() as directory,
        Tidemill(Path(directory), Settings(engine=SCALES[case.scale], runs=PATIENT), declared) as mill,
    ):
        mill.apply()
        assert mill.engine.quick_session is not mill.engine.spark
        yield mill


SCALES = {
    Scale.SMALL: EngineSettings(),
    Scale.LARGE: EngineSettings(relation_rows=0, single_task_rows=1, content_rows=0),
    Scale.HUGE: EngineSettings(local="off", relation_rows=0, single_task_rows=1, content_rows=0),
}
"""Settings with which data counts as large."""

PATIENT = RunSettings(lease=86_400.0)
"""A campaign may be suspended: leases do not expire meanwhile."""


def insert_rows(mill: Tidemill, schema: Schema, insert: Insert) -> None:
    """Insert through a file, which needs no Spark job."""
    updates = mill.catalog.channels.read(insert.channel).channel.updates
    physical = updates.build_delta_schema(schema) if insert.kind is BlockKind.DELTA else schema
    names = [f.name for f in physical if f.name in schema or any(f.name in row for row in insert.rows)]
    path = mill.directory / f"{insert.channel}.parquet"
    pq.write_table(to_arrow(physical.select_fields(names), insert.rows), path)
    mill.insert(insert.channel, path, kind=insert.kind)


def to_arrow(schema: Schema, rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=pa.schema([(f.name, to_arrow_type(f.data_type)) for f in schema]))
