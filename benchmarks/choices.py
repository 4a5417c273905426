"""Quality of refresh-mode choices: over queries and sizes of change, was the chosen mode the faster one?

Each query is declared twice over the same inputs. One table is refreshed in the mode that Tidemill chooses, its twin in
the other mode, so that both modes are timed on the same change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidemill as tm
from benchmarks.cost import measure_cost
from benchmarks.refresh import open_project, refresh
from tidemill.app.wiring import Tidemill
from tidemill.planner.refresh_mode import RefreshChoice

QUERIES: Mapping[str, str] = {
    "filter": "SELECT id, k, v * 2 AS w FROM events WHERE v > 500",
    "sum": "SELECT k, count(*) AS n, sum(v) AS total FROM events GROUP BY k",
    "distinct": "SELECT k, count(DISTINCT v) AS n FROM events GROUP BY k",
    "extremes": "SELECT k, min(v) AS least, max(v) AS most FROM events GROUP BY k",
    "join": "SELECT e.id, e.v, d.name FROM events e JOIN things d ON e.k = d.k",
    "latest": "SELECT k, id, v FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY id DESC) AS r FROM events) "
    "WHERE r <= 2",
    "joined sums": "SELECT d.name, sum(e.v) AS total FROM events e JOIN things d ON e.k = d.k GROUP BY d.name",
    "averages": "SELECT k % 100 AS g, avg(v) AS mean, stddev(v) AS spread FROM events GROUP BY k % 100",
    "frequent": "SELECT k, count(*) AS n FROM events GROUP BY k HAVING count(*) > 12",
    "left join": "SELECT e.id, d.name FROM events e LEFT JOIN things d ON e.k = d.k AND d.k % 2 = 0",
    "known": "SELECT id, v FROM events e WHERE EXISTS (SELECT 1 FROM things d WHERE d.k = e.k AND d.name < 'thing2')",
    "pairs": "SELECT DISTINCT k, v % 10 AS digit FROM events",
    "running": "SELECT id, k, sum(v) OVER (PARTITION BY k ORDER BY id) AS so_far FROM events",
}

SHARES = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.3, 1.0)
WARM_UP = (0.001, 0.1, 0.5)
"""Sizes of change on which both modes run three times before choices count."""

TIE = 1.1
"""A mode counts as equally fast if it takes at most this multiple of the other mode's time."""

_MODES = ("incremental", "batch")


def build_workflow(query: str) -> tm.Workflow:
    spec = tm.Workflow("choices")
    spec.input("events", "id bigint, k bigint, v bigint")
    spec.input("things", "k bigint, name string")
    spec.sql("chosen", query)
    spec.sql("twin", query)
    return spec


@dataclass(frozen=True, slots=True)
class Events:
    """Rows that are a function of their numbers; the keys are a tenth as many as the rows of the first batch."""

    spark: SparkSession
    rows: int

    def create_batch(self, first: int, count: int) -> DataFrame:
        k = F.pmod(F.xxhash64("id"), F.lit(self._keys))
        v = F.pmod(F.xxhash64("id", F.lit(1)), F.lit(1000))
        return self.spark.range(first, first + count).select("id", k.alias("k"), v.alias("v"))

    def create_things(self) -> DataFrame:
        name = F.concat(F.lit("thing"), F.col("id") % 1000)
        return self.spark.range(self._keys).select(F.col("id").alias("k"), name.alias("name"))

    @property
    def _keys(self) -> int:
        return max(10, self.rows // 10)


def measure(
    directory: Path,
    *,
    rows: int,
    rounds: int,
    only: Sequence[str] = (),
    shares: Sequence[float] = SHARES,
    on_progress: Callable[[str], None],
) -> dict[str, Any]:
    """One point for each query, share and round; the share of right choices, and the time lost by wrong ones."""
    points: list[dict[str, Any]] = []
    for name in only or tuple(QUERIES):
        with open_project(directory / name.replace(" ", "_"), build_workflow(QUERIES[name])) as mill:
            sweep = _QuerySweep(mill, Events(mill.engine.spark, rows))
            sweep.warm_up()
            for share in [s for _ in range(rounds) for s in shares]:
                point = {"query": name, "share": share} | sweep.measure_point(share)
                on_progress(
                    f"{name}, {share:.2%}: {point['chosen']} {point['seconds']} s, else {point['other_seconds']} s"
                )
                points.append(point)
    return summarize(points)


def summarize(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """
    >>> summarize([{"seconds": 1.0, "other_seconds": 2.0}, {"seconds": 3.0, "other_seconds": 2.0}])["lost"]
    0.25
    """
    right = [p["seconds"] <= TIE * p["other_seconds"] for p in points]
    lost = sum(p["seconds"] - p["other_seconds"] for p, good in zip(points, right, strict=True) if not good)
    total = sum(p["seconds"] for p in points)
    return {
        "points": [dict(p) for p in points],
        "cases": len(points),
        "right": round(sum(right) / len(points), 3),
        "lost": round(lost / total, 3),
    }


class _QuerySweep:
    """The two tables of one query, both at the same state."""

    def __init__(self, mill: Tidemill, events: Events) -> None:
        self._mill, self._events, self._rows = mill, events, 0

    def warm_up(self) -> None:
        self._mill.insert("things", self._events.create_things())
        self._insert_events(self._events.rows)
        for table in ("chosen", "twin"):
            refresh(self._mill, table)
        for share in WARM_UP * 2:
            self._insert_events(round(self._events.rows * share))
            modes = _MODES if share == WARM_UP[0] else _MODES[::-1]
            for table, mode in (("chosen", modes[0]), ("twin", modes[1])):
                refresh(self._mill, table, mode)
        for mode in _MODES * 2:
            self._insert_events(round(self._events.rows * WARM_UP[1]))
            refresh(self._mill, "chosen", mode)
            refresh(self._mill, "twin", mode)
        self._compact_channels()

    def measure_point(self, share: float) -> dict[str, Any]:
        self._insert_events(max(1, round(self._rows * share)))
        choices: list[RefreshChoice] = []
        cost = measure_cost(
            lambda: self._mill.run("chosen", on_choice=lambda by_task: choices.extend(by_task.values()))
        )
        chosen = choices[0].mode
        other = "batch" if chosen == "incremental" else "incremental"
        other_cost = measure_cost(lambda: refresh(self._mill, "twin", other))
        self._compact_channels()
        expected = {option.mode: option.seconds for option in choices[0].options}
        return {
            "rows": self._rows,
            "chosen": chosen,
            "seconds": round(cost.seconds, 3),
            "expected": _round_seconds(expected[chosen]),
            "other": other,
            "other_seconds": round(other_cost.seconds, 3),
            "other_expected": _round_seconds(expected[other]),
        }

    def _insert_events(self, count: int) -> None:
        self._mill.insert("events", self._events.create_batch(self._rows, count))
        self._rows += count

    def _compact_channels(self) -> None:
        for state in self._mill.catalog.channels.list():
            self._mill.compact(state.channel.name)


def _round_seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
