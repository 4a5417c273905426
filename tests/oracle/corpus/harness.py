"""The corpus: queries that Spark accepts, each refreshed through three steps and compared with Spark after each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.oracle.corpus.tables import HISTORY, INPUTS
from tests.oracle.queries import scratch, world
from tests.oracle.queries.case import Case, Scale
from tests.oracle.queries.compare import difference
from tests.oracle.queries.histories import contents
from tests.oracle.queries.report import format_difference

from tidemill.app.wiring import Tidemill
from tidemill.errors import TidemillError

HERE = Path(__file__).parent
GOLDEN = HERE / "variants.txt"
QUERIES_PER_PROJECT = 32
"""Queries that are refreshed concurrently in one project."""


@dataclass
class Outcome:
    """The outcome of a query: the variants of its refreshes, the reason for batch, and problems."""

    variants: list[str] = field(default_factory=list)
    batch_reason: str | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        """The variants after its first run; for a query that only runs as batch, the reason."""
        after = sorted(set(self.variants[1:]))
        return " ".join(after) + (f": {self.batch_reason}" if self.batch_reason else "")


def read_queries(*files: str, only_suite: bool = False) -> dict[str, str]:
    """The queries of some of the corpus's files, by name; of all files by default.

    A query begins with `-- name: …`, or with `-- suite: …` if the test suite runs it.
    """
    paths = [HERE / f"{name}.sql" for name in files] or sorted(HERE.glob("*.sql"))
    queries: dict[str, str] = {}
    for path in paths:
        parts = re.split(r"^-- (name|suite): (\w+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for mark, name, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            assert name not in queries, f"two queries are named {name}"
            if mark == "suite" or not only_suite:
                queries[name] = text.strip().removesuffix(";")
    return queries


def read_golden() -> dict[str, str]:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line)


def write_golden(outcomes: Mapping[str, Outcome]) -> None:
    GOLDEN.write_text("".join(f"{name}: {outcomes[name].line}\n" for name in sorted(outcomes)), encoding="utf-8")


def refresh_and_compare(
    spark: SparkSession, queries: Mapping[str, str], scale: Scale = Scale.SMALL
) -> dict[str, Outcome]:
    """Refresh the queries through the history, several at once; prints the outcome of each."""
    names = list(queries)
    all_outcomes: dict[str, Outcome] = {}
    for i in range(0, len(names), QUERIES_PER_PROJECT):
        outcomes = _refresh_group(spark, {name: queries[name] for name in names[i : i + QUERIES_PER_PROJECT]}, scale)
        for name, outcome in outcomes.items():
            print("\n    ".join((f"{name}: {outcome.line}", *outcome.problems)))
        all_outcomes |= outcomes
        print(f"[{scale.name.lower()}: {len(all_outcomes)} of {len(names)} queries]", flush=True)
    return all_outcomes


def _refresh_group(spark: SparkSession, queries: Mapping[str, str], scale: Scale) -> dict[str, Outcome]:
    outcomes = {name: Outcome() for name in queries}
    case = Case(queries, INPUTS, HISTORY, scale)
    reference_spark = scratch.open_session(spark)
    with world.project(case) as mill, ThreadPoolExecutor(world.THREADS) as pool:
        for workflow in mill.project.workflows:
            for task in workflow.list_tasks():
                outcomes[task.name].batch_reason = task.batch_reason
        for number, channel_contents in enumerate(contents(INPUTS, HISTORY)):
            for insert in HISTORY[number]:
                world.insert_rows(mill, case.schemas[insert.channel], insert)
            runs = {name: pool.submit(world.refresh, mill, name) for name in queries}
            tables = {name: world.to_arrow(schema, channel_contents[name]) for name, schema in case.schemas.items()}
            expected = scratch.from_scratch(reference_spark, queries, tables, pool)
            for name, run in runs.items():
                try:
                    outcomes[name].variants.append(run.result())
                except TidemillError as error:
                    outcomes[name].problems.append(f"step {number}: its run failed: {error}")
            fresh = [name for name in queries if not outcomes[name].problems]
            for name, result in _read(mill, fresh, pool).items():
                outcomes[name].problems += (
                    [f"step {number}: it cannot be read: {result}"]
                    if isinstance(result, Exception)
                    else _compare(number, result, expected[name])
                )
    return outcomes


def _read(mill: Tidemill, names: Sequence[str], pool: Executor) -> dict[str, scratch.Result | Exception]:
    """The content of the tables, or the error of one that cannot be read."""
    try:
        return dict(scratch.fetch_results({name: mill.read(name) for name in names}, pool))
    except (PySparkException, Py4JJavaError) as error:
        if len(names) == 1:
            return {names[0]: error}
        return {name: result for one in names for name, result in _read(mill, [one], pool).items()}


def _compare(step: int, result: scratch.Result, expected: scratch.Result) -> list[str]:
    rows = difference(result.rows, expected.rows)
    if rows:
        return [f"step {step}: {format_difference('the table', 'Spark', rows)}"]
    if result.types != expected.types:
        return [f"step {step}: the table has {result.types}, Spark {expected.types}"]
    return []
