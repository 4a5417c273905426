"""The corpus: queries that Spark accepts, each kept fresh through three steps and held to Spark after every one."""

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
from tests.oracle.queries.report import rows_of

from tidemill.app.wiring import Tidemill
from tidemill.errors import TidemillError

HERE = Path(__file__).parent
GOLDEN = HERE / "variants.txt"
AT_ONCE = 32
"""Queries that are kept fresh side by side in one project."""


@dataclass
class Outcome:
    """How a query fared: the variants of its refreshes, why it is batch if it is, and what went wrong."""

    variants: list[str] = field(default_factory=list)
    because: str | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        """How it is refreshed after its first run; a query that only batch can do says why."""
        after = sorted(set(self.variants[1:]))
        return " ".join(after) + (f": {self.because}" if self.because else "")


def read_queries(*files: str, only_suite: bool = False) -> dict[str, str]:
    """The queries of some of the corpus's files, by name; of all if none is named.

    A query begins with `-- name: …`, or with `-- suite: …` if every run of the tests tries it.
    """
    paths = [HERE / f"{name}.sql" for name in files] or sorted(HERE.glob("*.sql"))
    found: dict[str, str] = {}
    for path in paths:
        parts = re.split(r"^-- (name|suite): (\w+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for mark, name, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            assert name not in found, f"two queries are named {name}"
            if mark == "suite" or not only_suite:
                found[name] = text.strip().removesuffix(";")
    return found


def read_golden() -> dict[str, str]:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line)


def write_golden(found: Mapping[str, Outcome]) -> None:
    GOLDEN.write_text("".join(f"{name}: {found[name].line}\n" for name in sorted(found)), encoding="utf-8")


def keep_fresh(spark: SparkSession, queries: Mapping[str, str], scale: Scale = Scale.SMALL) -> dict[str, Outcome]:
    """Keep the queries fresh through the history, some at once; prints how each fares."""
    names = list(queries)
    found: dict[str, Outcome] = {}
    for at in range(0, len(names), AT_ONCE):
        outcomes = _keep_fresh(spark, {name: queries[name] for name in names[at : at + AT_ONCE]}, scale)
        for name, outcome in outcomes.items():
            print("\n    ".join((f"{name}: {outcome.line}", *outcome.problems)))
        found |= outcomes
        print(f"[{scale.name.lower()}: {len(found)} of {len(names)} queries]", flush=True)
    return found


def _keep_fresh(spark: SparkSession, queries: Mapping[str, str], scale: Scale) -> dict[str, Outcome]:
    outcomes = {name: Outcome() for name in queries}
    case = Case(queries, INPUTS, HISTORY, scale)
    judge = scratch.judge(spark)
    with world.sized(scale), world.project(case) as mill, ThreadPoolExecutor(world.THREADS) as pool:
        for workflow in mill.project.workflows:
            for task in workflow.list_tasks():
                outcomes[task.name].because = task.batch_reason
        for number, held in enumerate(contents(INPUTS, HISTORY)):
            for insert in HISTORY[number]:
                world.arrive(mill, case.schemas[insert.channel], insert)
            runs = {name: pool.submit(world.refresh, mill, name) for name in queries}
            tables = {name: world.to_arrow(schema, held[name]) for name, schema in case.schemas.items()}
            expected = scratch.from_scratch(judge, queries, tables, pool)
            for name, run in runs.items():
                try:
                    outcomes[name].variants.append(run.result())
                except TidemillError as error:
                    outcomes[name].problems.append(f"step {number}: its run failed: {error}")
            fresh = [name for name in queries if not outcomes[name].problems]
            for name, kept in _read(mill, fresh, pool).items():
                outcomes[name].problems += (
                    [f"step {number}: it cannot be read: {kept}"]
                    if isinstance(kept, Exception)
                    else _compare(number, kept, expected[name])
                )
    return outcomes


def _read(mill: Tidemill, names: Sequence[str], pool: Executor) -> dict[str, scratch.Result | Exception]:
    """What the tables hold, or why one of them cannot be read."""
    try:
        return dict(scratch.fetched({name: mill.read(name) for name in names}, pool))
    except (PySparkException, Py4JJavaError) as error:
        if len(names) == 1:
            return {names[0]: error}
        return {name: found for one in names for name, found in _read(mill, [one], pool).items()}


def _compare(step: int, kept: scratch.Result, expected: scratch.Result) -> list[str]:
    found = difference(kept.rows, expected.rows)
    if found:
        return [f"step {step}: {rows_of('the table', 'Spark', found)}"]
    if kept.types != expected.types:
        return [f"step {step}: the table has {kept.types}, Spark {expected.types}"]
    return []
