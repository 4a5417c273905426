"""When an incremental join pays: against a full one, from little to as much new data as old (Nova, figure 5)."""

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
from benchmarks.bags import same_bag
from benchmarks.cost import measured
from benchmarks.refresh import project, refresh
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill

SHARES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
WAYS = ("full", "incremental", "declared")
"""The two joins of the figure, and the same join as a query, for which Tidemill finds the way."""

_QUERY = "SELECT l.id, l.name, r.text FROM lefts l JOIN rights r ON l.id = r.id"


def full(lefts: tm.All, rights: tm.All) -> tm.Base:
    return _joined(lefts, rights)


def incremental(lefts: tm.New, lefts_old: tm.Old, rights: tm.New, rights_old: tm.Old) -> tm.Delta:
    return _joined(lefts_old, rights).unionAll(_joined(lefts, rights_old)).unionAll(_joined(lefts, rights))


def _joined(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.join(right, "id").select("id", "name", "text")


def measure(
    directory: Path,
    *,
    rows: int,
    rounds: int,
    shares: Sequence[float] = SHARES,
    settings: Settings | None = None,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """A point for each share of new data, and the share at which the two joins take the same time."""
    with project(directory / "session", workflow(), settings) as mill:
        # The session belongs to whoever starts it first: this project outlives those of the rounds.
        mill.engine.start()
        _round(directory, 0, rows, shares[0], settings)
        points = [_point(directory, rows, share, rounds, settings, tell) for share in shares]
    return {"rows": rows, "rounds": rounds, "crossover": crossover(points), "points": points}


def workflow() -> tm.Workflow:
    made = tm.Workflow("join")
    made.input("lefts", "id bigint, name string")
    made.input("rights", "id bigint, text string")
    made.task(full)
    made.task(channels={"lefts_old": "lefts", "rights_old": "rights"})(incremental)
    made.sql("declared", _QUERY)
    return made


def crossover(points: Sequence[Mapping[str, Any]]) -> float | None:
    """The share of new data from which the full join is the faster one; None if it is so nowhere, or everywhere.

    Between two points the logarithm of the ratio is taken to follow that of the share in a straight line.

    >>> crossover([{"delta": 0.01, "ratio": 0.5}, {"delta": 1.0, "ratio": 2.0}])
    0.1
    >>> crossover([{"delta": 0.01, "ratio": 0.5}, {"delta": 1.0, "ratio": 0.9}])
    """
    for before, after in pairwise(points):
        if before["ratio"] <= 1 < after["ratio"]:
            low, high = math.log(before["ratio"]), math.log(after["ratio"])
            start, end = math.log(before["delta"]), math.log(after["delta"])
            return round(math.exp(start - low * (end - start) / (high - low)), 4)
    return None


def _point(
    directory: Path, rows: int, share: float, rounds: int, settings: Settings | None, tell: Callable[[str], None]
) -> dict[str, Any]:
    tell(f"{share:.1%} new data beside {rows} rows")
    done = [_round(directory, number, rows, share, settings) for number in range(rounds)]
    seconds = {f"{way}_s": median(r[f"{way}_s"] for r in done) for way in WAYS}
    return {
        "delta": share,
        **{name: round(value, 3) for name, value in seconds.items()},
        "ratio": round(seconds["incremental_s"] / seconds["full_s"], 3),
        "variant": done[-1]["variant"],
        "equal": all(r["equal"] for r in done),
    }


def _round(directory: Path, number: int, rows: int, share: float, settings: Settings | None) -> dict[str, Any]:
    """In a project of its own, so that every round joins the same old rows with the same new ones."""
    home = directory / "round"
    with project(home, workflow(), settings) as mill:
        _insert(mill, 0, rows, rows)
        for way in WAYS:
            refresh(mill, way)
        _insert(mill, rows, max(1, round(rows * share)), rows)
        timed = {way: _timed(mill, way) for way in _turned(WAYS, number)}
        contents = {way: mill.read(way) for way in WAYS}
        equal = all(same_bag(contents["full"], contents[way]) for way in WAYS[1:])
    shutil.rmtree(home)
    seconds = {f"{way}_s": took for way, (took, _) in timed.items()}
    return {**seconds, "variant": timed["declared"][1], "equal": equal}


def _timed(mill: Tidemill, way: str) -> tuple[float, str]:
    """The seconds of a refresh, and the variant that ran."""
    ran: list[str] = []
    return measured(lambda: ran.append(refresh(mill, way))).seconds, ran[0]


def _turned(ways: tuple[str, ...], number: int) -> tuple[str, ...]:
    """Each way goes first in its turn."""
    first = number % len(ways)
    return ways[first:] + ways[:first]


def _insert(mill: Tidemill, first: int, count: int, keys: int) -> None:
    spark = mill.engine.spark
    mill.insert("lefts", _rows(spark, first, count, keys, 7919).select("id", F.col("hash").alias("name")))
    mill.insert("rights", _rows(spark, first, count, keys, 104_729).select("id", F.col("hash").alias("text")))


def _rows(spark: SparkSession, first: int, count: int, keys: int, prime: int) -> DataFrame:
    """Keys are spread over the same range in old and new rows: each row finds about one partner among the old."""
    number = F.col("id")
    return spark.range(first, first + count).select(
        F.pmod(F.xxhash64(number * prime), F.lit(keys)).alias("id"), F.sha2(number.cast("string"), 256).alias("hash")
    )
