"""Crossover of an incremental and a full join, from little new data to as much new data as old (Nova, figure 5)."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidemill as tm
from benchmarks.bags import is_same_bag
from benchmarks.cost import measure_cost
from benchmarks.refresh import open_project, refresh
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill

SHARES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
JOINS = ("full", "incremental", "declared")
"""The two joins of the figure, and the same join as a query, whose refresh mode Tidemill chooses."""

_QUERY = "SELECT l.id, l.name, r.text FROM lefts l JOIN rights r ON l.id = r.id"


def full(lefts: tm.All, rights: tm.All) -> tm.Base:
    return _join(lefts, rights)


def incremental(lefts: tm.New, lefts_old: tm.Old, rights: tm.New, rights_old: tm.Old) -> tm.Delta:
    return _join(lefts_old, rights).unionAll(_join(lefts, rights_old)).unionAll(_join(lefts, rights))


def _join(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.join(right, "id").select("id", "name", "text")


def measure(
    directory: Path,
    *,
    rows: int,
    rounds: int,
    shares: Sequence[float] = SHARES,
    settings: Settings | None = None,
    on_progress: Callable[[str], None],
) -> dict[str, Any]:
    """A point for each share of new data, and the share at which the two joins take the same time."""
    with open_project(directory / "session", build_workflow(), settings) as mill:
        # The first project owns the Spark session; it outlives the projects of the rounds.
        mill.engine.start()
        _run_round(directory, 0, rows, shares[0], settings)
        points = [_measure_point(directory, rows, share, rounds, settings, on_progress) for share in shares]
    return {"rows": rows, "rounds": rounds, "crossover": find_crossover(points), "points": points}


def build_workflow() -> tm.Workflow:
    spec = tm.Workflow("join")
    spec.input("lefts", "id bigint, name string")
    spec.input("rights", "id bigint, text string")
    spec.task(full)
    spec.task(channels={"lefts_old": "lefts", "rights_old": "rights"})(incremental)
    spec.sql("declared", _QUERY)
    return spec


def find_crossover(points: Sequence[Mapping[str, Any]]) -> float | None:
    """The share of new data above which the full join is faster; None if the times do not cross.

    Between two points, the logarithm of the ratio is interpolated linearly over the logarithm of the share.

    >>> find_crossover([{"delta": 0.01, "ratio": 0.5}, {"delta": 1.0, "ratio": 2.0}])
    0.1
    >>> find_crossover([{"delta": 0.01, "ratio": 0.5}, {"delta": 1.0, "ratio": 0.9}])
    """
    for before, after in pairwise(points):
        if before["ratio"] <= 1 < after["ratio"]:
            low, high = math.log(before["ratio"]), math.log(after["ratio"])
            start, end = math.log(before["delta"]), math.log(after["delta"])
            return round(math.exp(start - low * (end - start) / (high - low)), 4)
    return None


def _measure_point(
    directory: Path, rows: int, share: float, rounds: int, settings: Settings | None, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    on_progress(f"{share:.1%} new data beside {rows} rows")
    results = [_run_round(directory, number, rows, share, settings) for number in range(rounds)]
    seconds = {f"{join}_s": median(r[f"{join}_s"] for r in results) for join in JOINS}
    return {
        "delta": share,
        **{name: round(value, 3) for name, value in seconds.items()},
        "ratio": round(seconds["incremental_s"] / seconds["full_s"], 3),
        "variant": results[-1]["variant"],
        "equal": all(r["equal"] for r in results),
    }


def _run_round(directory: Path, number: int, rows: int, share: float, settings: Settings | None) -> dict[str, Any]:
    """Run one round in a new project, so that every round joins the same old rows with the same new ones."""
    project_directory = directory / "round"
    with open_project(project_directory, build_workflow(), settings) as mill:
        _insert(mill, 0, rows, rows)
        for join in JOINS:
            refresh(mill, join)
        _insert(mill, rows, max(1, round(rows * share)), rows)
        timings = {join: _time_refresh(mill, join) for join in _rotate(JOINS, number)}
        contents = {join: mill.read(join) for join in JOINS}
        equal = all(is_same_bag(contents["full"], contents[join]) for join in JOINS[1:])
    shutil.rmtree(project_directory)
    seconds = {f"{join}_s": duration for join, (duration, _) in timings.items()}
    return {**seconds, "variant": timings["declared"][1], "equal": equal}


def _time_refresh(mill: Tidemill, table: str) -> tuple[float, str]:
    """The seconds of a refresh, and the variant that ran."""
    variants: list[str] = []
    return measure_cost(lambda: variants.append(refresh(mill, table))).seconds, variants[0]


def _rotate(joins: tuple[str, ...], number: int) -> tuple[str, ...]:
    """The joins in rotated order, so that each is measured first in its turn."""
    first = number % len(joins)
    return joins[first:] + joins[:first]


def _insert(mill: Tidemill, first: int, count: int, keys: int) -> None:
    spark = mill.spark
    mill.insert("lefts", _generate_rows(spark, first, count, keys, 7919).select("id", F.col("hash").alias("name")))
    mill.insert("rights", _generate_rows(spark, first, count, keys, 104_729).select("id", F.col("hash").alias("text")))


def _generate_rows(spark: SparkSession, first: int, count: int, keys: int, prime: int) -> DataFrame:
    """Rows whose keys have the same range in old and new data: each row matches about one old row."""
    number = F.col("id")
    return spark.range(first, first + count).select(
        F.pmod(F.xxhash64(number * prime), F.lit(keys)).alias("id"), F.sha2(number.cast("string"), 256).alias("hash")
    )
