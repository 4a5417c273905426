"""Quality of refresh-mode choices: over queries and sizes of change, was the chosen mode the fastest one?

Each query is declared four times over the same inputs. One table is refreshed in the mode that Tidemill chooses, each
of its twins always in one mode, so that all modes are timed on the same change: insertions, updates and deletions.
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
from tidemill.algebra.program import RefreshMode
from tidemill.app.wiring import Tidemill
from tidemill.planner.refresh_mode import RefreshChoice

TUNED_QUERIES: Mapping[str, str] = {
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
"""Queries on which the cost model was tuned."""

UNSEEN_QUERIES: Mapping[str, str] = {
    "bands": "SELECT v DIV 100 AS band, count(*) AS n, sum(CASE WHEN k % 3 = 0 THEN v ELSE 0 END) AS thirds, "
    "max(id) AS newest FROM events GROUP BY v DIV 100",
    "busy names": "SELECT name, count(DISTINCT k) AS ks FROM (SELECT e.k, d.name FROM events e JOIN things d "
    "ON e.k = d.k WHERE e.v BETWEEN 200 AND 800) GROUP BY name HAVING count(*) > 20",
    "unused": "SELECT d.k, d.name FROM things d LEFT ANTI JOIN events e ON e.k = d.k AND e.v > 900",
    "both": "SELECT k, v, 'low' AS side FROM events WHERE v < 50 "
    "UNION ALL SELECT k, v, 'high' FROM events WHERE v > 950",
    "gaps": "SELECT id, k, v - lag(v) OVER (PARTITION BY k ORDER BY id) AS step FROM events WHERE v % 2 = 0",
    "above mean": "SELECT e.id, e.v FROM events e JOIN (SELECT k, avg(v) AS mean FROM events GROUP BY k) m "
    "ON e.k = m.k WHERE e.v > m.mean * 1.5",
    "outer sums": "SELECT coalesce(e.k, d.k) AS k, e.total, d.name FROM "
    "(SELECT k, sum(v) AS total FROM events WHERE v > 300 GROUP BY k) e FULL JOIN things d ON e.k = d.k",
    "top names": "SELECT name, k, total FROM (SELECT *, rank() OVER (PARTITION BY name ORDER BY total DESC) AS r FROM "
    "(SELECT d.name, e.k, sum(e.v) AS total FROM events e JOIN things d ON e.k = d.k GROUP BY d.name, e.k)) "
    "WHERE r <= 3",
}
"""Queries that were written after the cost model was tuned, and are not to be tuned on."""

QUERIES = {**TUNED_QUERIES, **UNSEEN_QUERIES}

SHARES = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.3, 1.0)
WARM_UP = (0.001, 0.1, 0.5)
"""Sizes of change on which all modes run before choices count."""

TIE = 1.1
"""A choice counts as right if it takes at most this multiple of the fastest mode's time."""

UPDATED, DELETED = 0.3, 0.2
"""The shares of a change that update and delete existing rows; the rest are new rows."""

_MODES = tuple(map(str, RefreshMode))


def build_workflow(query: str) -> tm.Workflow:
    spec = tm.Workflow("choices")
    spec.input("events", "id bigint, k bigint, v bigint", key="id")
    spec.input("things", "k bigint, name string")
    for table in ("chosen", *_MODES):
        spec.sql(table, query)
    return spec


@dataclass(slots=True)
class Events:
    """Rows that are a function of their numbers; the keys are a tenth as many as the rows of the first batch.

    The oldest rows are deleted first, and the next ones updated.
    """

    spark: SparkSession
    first_rows: int
    added: int = 0
    deleted: int = 0

    @property
    def rows(self) -> int:
        return self.added - self.deleted

    def create_batch(self, count: int) -> DataFrame:
        """New rows."""
        rows = self._create_rows(self.added, count, 1)
        self.added += count
        return rows

    def create_change(self, count: int) -> DataFrame:
        """New, updated and deleted rows, as many as `count` together."""
        updated, deleted = (min(round(count * share), self.rows // 2) for share in (UPDATED, DELETED))
        removed = self._create_rows(self.deleted, deleted, 1).withColumn("_deleted", F.lit(True))
        updates = self._create_rows(self.deleted + deleted, updated, self.added)
        new = self._create_rows(self.added, max(1, count - updated - deleted), 1)
        self.deleted += deleted
        self.added += max(1, count - updated - deleted)
        return removed.unionAll(updates.unionAll(new).withColumn("_deleted", F.lit(False)))

    def create_things(self) -> DataFrame:
        name = F.concat(F.lit("thing"), F.col("id") % 1000)
        return self.spark.range(self._keys).select(F.col("id").alias("k"), name.alias("name"))

    def _create_rows(self, first: int, count: int, seed: int) -> DataFrame:
        k = F.pmod(F.xxhash64("id"), F.lit(self._keys))
        v = F.pmod(F.xxhash64("id", F.lit(seed)), F.lit(1000))
        return self.spark.range(first, first + count).select("id", k.alias("k"), v.alias("v"))

    @property
    def _keys(self) -> int:
        return max(10, self.first_rows // 10)


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
            sweep = _QuerySweep(mill, Events(mill.spark, rows))
            sweep.warm_up()
            for share in [s for _ in range(rounds) for s in shares]:
                point = {"query": name, "share": share} | sweep.measure_point(share)
                modes = ", ".join(f"{mode} {point[mode]} s" for mode in _MODES)
                on_progress(f"{name}, {share:.2%}: chose {point['chosen']}, {point['seconds']} s; {modes}")
                points.append(point)
    unseen = [p for p in points if p["query"] in UNSEEN_QUERIES]
    return {"points": points, **summarize(points), "unseen": summarize(unseen) if unseen else None}


def summarize(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """
    >>> fast, slow = {"seconds": 1.0, "fastest_s": 2.0}, {"seconds": 3.0, "fastest_s": 2.0}
    >>> summarize([fast, slow])["lost"]
    0.25
    """
    right = [p["seconds"] <= TIE * p["fastest_s"] for p in points]
    lost = sum(p["seconds"] - p["fastest_s"] for p, good in zip(points, right, strict=True) if not good)
    total = sum(p["seconds"] for p in points)
    return {
        "cases": len(points),
        "right": round(sum(right) / len(points), 3),
        "lost": round(lost / total, 3),
    }


class _QuerySweep:
    """The tables of one query, all with the same content."""

    def __init__(self, mill: Tidemill, events: Events) -> None:
        self._mill, self._events = mill, events

    def warm_up(self) -> None:
        """Fill the tables, and refresh the first one in every mode by changes of several sizes."""
        self._mill.insert("things", self._events.create_things())
        self._mill.insert("events", self._events.create_batch(self._events.first_rows))
        self._refresh_tables(dict.fromkeys(("chosen", *_MODES)))
        for share in WARM_UP * 2:
            for mode in (RefreshMode.RECOMPUTE, RefreshMode.BATCH, RefreshMode.INCREMENTAL):
                self._insert_change(share / 3)
                self._refresh_tables({"chosen": mode, **{twin: twin for twin in _MODES}})
        self._compact_channels()

    def measure_point(self, share: float) -> dict[str, Any]:
        """Refresh all tables after a change, the chosen one in the middle."""
        self._insert_change(share)
        seconds = {mode: self._measure_twin(mode) for mode in _MODES[:1]}
        choices: list[RefreshChoice] = []
        cost = measure_cost(
            lambda: self._mill.run("chosen", on_choice=lambda by_task: choices.extend(by_task.values()))
        )
        seconds |= {mode: self._measure_twin(mode) for mode in _MODES[1:]}
        self._compact_channels()
        expected = {option.mode: option.seconds for option in choices[0].options}
        return {
            "rows": self._events.rows,
            "chosen": choices[0].mode,
            "seconds": round(cost.seconds, 3),
            **{mode: round(value, 3) for mode, value in seconds.items()},
            **{f"{mode}_expected": _round_seconds(expected.get(mode)) for mode in _MODES},
            "fastest_s": round(min(seconds.values()), 3),
        }

    def _measure_twin(self, mode: str) -> float:
        return measure_cost(lambda: refresh(self._mill, mode, mode)).seconds

    def _refresh_tables(self, modes: Mapping[str, str | None]) -> None:
        for table, mode in modes.items():
            refresh(self._mill, table, mode)

    def _insert_change(self, share: float) -> None:
        self._mill.insert("events", self._events.create_change(max(1, round(self._events.rows * share))))

    def _compact_channels(self) -> None:
        for state in self._mill.catalog.channels.list():
            self._mill.compact(state.channel.name)


def _round_seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
