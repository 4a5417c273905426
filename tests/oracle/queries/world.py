"""A project that keeps declared queries fresh through a history, held after every step to what Spark and DuckDB
make of the same content from scratch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.oracle.queries import duck, scratch
from tests.oracle.queries.case import Case
from tests.oracle.queries.compare import difference
from tests.oracle.queries.histories import Input, Insert, Step, contents
from tests.oracle.queries.reduce import reduced
from tests.oracle.queries.report import Different, rows_of

import tidemill as tm
from tidemill.algebra.program import Way
from tidemill.app import Tidemill
from tidemill.errors import ConfigError, TidemillError
from tidemill.intake.arrow_types import arrow_type
from tidemill.model.block import Kind
from tidemill.model.change import Rows
from tidemill.model.schema import Schema
from tidemill.project import Project
from tidemill.settings import Settings


def refresh(mill: Tidemill, table: str) -> str:
    """The one place where the oracle runs a declared query: incrementally where that is possible. Returns the way."""
    try:
        run, _ = mill.run(table, variant=Way.INCREMENTAL)
    except ConfigError:  # the first run, or a query that only batch can do: then that is what users get, too
        run, _ = mill.run(table)
    return str(run.stats["tasks"][table]["variant"])


def check(
    spark: SparkSession, queries: Mapping[str, str], inputs: Sequence[Input], history: Sequence[Step]
) -> Counter[str]:
    """Keep the queries fresh through the history and compare after every step.

    Queries run in the order given; later ones may read earlier ones. Returns how many comparisons were made,
    one per query and step, by the way of the refresh before it; raises `Different` at the first that fails.
    """
    case = Case(queries, inputs, history)
    ways: Counter[str] = Counter()
    with _project(case) as mill:
        for number, held in enumerate(contents(inputs, history)):
            for insert in history[number]:
                _arrive(mill, case.schemas[insert.channel], insert)
            ways.update(_fresh(mill, case.until(number + 1)))
            _compare(spark, mill, case.until(number + 1), held)
    return ways


def search(spark: SparkSession, case: Case) -> Counter[str]:
    """Check a case, and fail with the smallest like it that can be found in reasonable time."""
    try:
        return check(spark, case.queries, case.inputs, case.history)
    except Different as found:
        first = found
    small = reduced(first.case, lambda smaller: _goes_wrong(spark, smaller, first.kind))
    check(spark, small.queries, small.inputs, small.history)
    raise AssertionError("it failed once and then no more: what it depends on is not in the case") from first


def _goes_wrong(spark: SparkSession, case: Case, kind: str) -> bool:
    try:
        check(spark, case.queries, case.inputs, case.history)
    except Different as found:
        return found.kind == kind
    return False


def _fresh(mill: Tidemill, case: Case) -> Iterator[str]:
    for table in case.queries:
        try:
            yield refresh(mill, table)
        except TidemillError as error:
            raise Different(case, table, "its run failed", str(error)) from error


def _compare(spark: SparkSession, mill: Tidemill, case: Case, held: Mapping[str, Rows]) -> None:
    """The two judges must agree with each other first, or they cannot judge."""
    tables = {name: _arrow(schema, held[name]) for name, schema in case.schemas.items()}
    by_spark = scratch.from_scratch(spark, case.queries, tables)
    by_duck = duck.from_scratch(case.queries, tables)
    kept = scratch.fetched({table: mill.read(table) for table in case.queries})
    for table in case.queries:
        _hold(case, table, ("Spark from scratch", by_spark[table]), ("DuckDB", by_duck[table]))
        _hold(case, table, ("the table", kept[table]), ("Spark from scratch", by_spark[table]))


def _hold(case: Case, table: str, left: tuple[str, Rows], right: tuple[str, Rows]) -> None:
    found = difference(left[1], right[1])
    if found:
        raise Different(case, table, f"{left[0]} and {right[0]} differ", rows_of(left[0], right[0], found))


@contextmanager
def _project(case: Case) -> Iterator[Tidemill]:
    workflow = tm.Workflow("oracle")
    for channel in case.inputs:
        workflow.input(channel.name, channel.schema, updates=channel.updates)
    for name, text in case.queries.items():
        workflow.sql(name, text)
    declared = Project((workflow.declared(),))
    with TemporaryDirectory() as directory, Tidemill(Path(directory), Settings(), declared) as mill:
        mill.apply()
        yield mill


def _arrive(mill: Tidemill, schema: Schema, insert: Insert) -> None:
    """Insert through a file, which needs no Spark job."""
    updates = mill.catalog.channel(insert.channel).channel.updates
    physical = updates.delta_schema(schema) if insert.kind is Kind.DELTA else schema
    given = [f.name for f in physical if f.name in schema or any(f.name in row for row in insert.rows)]
    path = mill.directory / f"{insert.channel}.parquet"
    pq.write_table(_arrow(physical.select(given), insert.rows), path)
    mill.insert(insert.channel, path, kind=insert.kind)


def _arrow(schema: Schema, rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=pa.schema([(f.name, arrow_type(f.parsed)) for f in schema]))
