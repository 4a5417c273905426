"""The 22 queries of TPC-H, kept fresh through its refreshes, against computing each from scratch.

What it measures is not a TPC-H result, and cannot be compared with one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame

from benchmarks import tpch
from benchmarks.bags import same_bag
from benchmarks.cost import measured
from benchmarks.refresh import looked_at, project, refresh
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import TidemillError
from tidemill.spark.session import start_session

REFRESHED = 0.001
"""The share of orders that a refresh inserts or deletes, as the specification has it."""

_CHANGING = ("orders", "lineitem")
_FORCED = "_forced"


@dataclass(frozen=True, slots=True)
class Way:
    """One refresh of a query's table in one way; `refused` says why it could not be done in that way."""

    variant: str
    seconds: float
    equal: bool
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Refreshed:
    """One query after one refresh: as it was kept fresh, and what computing it from scratch took."""

    query: int
    automatic: Way
    forced: Way | None  # where the incremental variant was asked for
    recompute_seconds: float


def measure(
    directory: Path,
    *,
    scale: float,
    only: Sequence[int] = tpch.NUMBERS,
    share: float = REFRESHED,
    rounds: int = 1,
    warm_up: int = 1,
    forced: bool = False,
    settings: Settings | None = None,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """A point for each query: medians over rounds, each of which inserts orders, then deletes others."""
    chosen = settings or Settings()
    spark = start_session(chosen.spark.master, chosen.spark.settings)
    tell(f"making the tables at scale {scale:g}")
    tables = tpch.stored(spark, tpch.generate(directory / "tables", scale))
    queries = tpch.names(only) | (tpch.names(only, _FORCED) if forced else {})
    with project(directory, tpch.workflow(tables, queries), settings) as mill:
        bench = _Bench(mill, directory / "scratch", tables, share, forced, tell)
        bench.prepare(queries)
        done = [
            result for number in range(warm_up + rounds) for result in bench.round(only, number) if number >= warm_up
        ]
        variants = {number: bench.variants(name) for name, number in tpch.names(only).items()}
    points = [_point(variants[number], [r for r in done if r.query == number]) for number in only]
    return {"scale": scale, "share": share, "rounds": rounds, "points": points}


@dataclass(frozen=True, slots=True)
class _Bench:
    """The queries in their project; `scratch` is for what plain Spark reads and writes."""

    mill: Tidemill
    scratch: Path
    tables: Mapping[str, DataFrame]
    share: float
    forced: bool
    tell: Callable[[str], None]

    def prepare(self, queries: Mapping[str, int]) -> None:
        tpch.load(self.mill, self.tables)
        for name in queries:
            self.tell(f"first run of {name}")
            refresh(self.mill, name)

    def variants(self, table: str) -> str:
        """The ways in which its table can be refreshed; those for one input alone are not told apart."""
        (writer,) = self.mill.explain(table).writers
        return ", ".join(dict.fromkeys(v.name.partition(":")[0] for v in writer.variants))

    def round(self, queries: Sequence[int], turn: int) -> Iterator[Refreshed]:
        for change in tpch.REFRESHES:
            tpch.apply(self.mill, change, self.share, turn)
            now = {**self.tables, **self._exported()}
            for number in queries:
                done = self._refreshed(number, now)
                self.tell(f"{change}, query {number}: {_told(done)}")
                yield done
            for channel in _CHANGING:  # so that later refreshes do not merge ever more deltas
                self.mill.compact(channel)

    def _exported(self) -> dict[str, DataFrame]:
        """The changed tables as plain files of their whole content, so that computing from scratch merges nothing."""
        return {channel: self._written(looked_at(self.mill, channel), channel) for channel in _CHANGING}

    def _refreshed(self, number: int, now: Mapping[str, DataFrame]) -> Refreshed:
        made = measured(lambda: self._written(tpch.from_scratch(now, number), "result"))
        expected = self.mill.engine.spark.read.parquet(str(self.scratch / "result"))
        (name,), (forced,) = tpch.names([number]), tpch.names([number], _FORCED)
        automatic = self._way(name, None, expected)
        return Refreshed(
            number, automatic, self._way(forced, "incremental", expected) if self.forced else None, made.seconds
        )

    def _way(self, name: str, variant: str | None, expected: DataFrame) -> Way:
        ran: list[str] = []
        try:
            cost = measured(lambda: ran.append(refresh(self.mill, name, variant)))
        except TidemillError as error:
            if variant is None:
                raise
            return Way("none", 0.0, equal=True, refused=str(error))
        return Way(ran[0], cost.seconds, same_bag(looked_at(self.mill, name), expected))

    def _written(self, rows: DataFrame, name: str) -> DataFrame:
        path = self.scratch / name
        shutil.rmtree(path, ignore_errors=True)
        rows.write.parquet(str(path))
        return rows.sparkSession.read.schema(rows.schema).parquet(str(path))


def _told(done: Refreshed) -> str:
    way = done.automatic
    equal = "equal" if way.equal else "DIFFERENT"
    return f"{way.variant} in {way.seconds:.2f} s, from scratch {done.recompute_seconds:.2f} s, {equal}"


def _point(variants: str, done: Sequence[Refreshed]) -> dict[str, Any]:
    """A query's variants and what they took; the fields of the forced way are there only if it was asked for."""
    recompute_s = median(r.recompute_seconds for r in done)
    automatic = [r.automatic for r in done]
    forced = [r.forced for r in done if r.forced is not None]
    return {
        "query": done[0].query,
        "variants": variants,
        "recompute_s": round(recompute_s, 3),
        **_summary(automatic, recompute_s),
        **{f"forced_{name}": value for name, value in (_forced_summary(forced, recompute_s) if forced else {}).items()},
        "equal": all(way.equal for way in automatic + forced),
    }


def _summary(ways: Sequence[Way], recompute_s: float) -> dict[str, Any]:
    refresh_s = median(w.seconds for w in ways)
    return {
        "variant": " + ".join(dict.fromkeys(w.variant for w in ways)),
        "refresh_s": round(refresh_s, 3),
        "speedup": round(recompute_s / refresh_s, 2),
    }


def _forced_summary(ways: Sequence[Way], recompute_s: float) -> dict[str, Any]:
    refused = next((w.refused for w in ways if w.refused), None)
    if refused is not None:
        return {"variant": None, "refresh_s": None, "speedup": None, "refused": refused}
    return {**_summary(ways, recompute_s), "refused": None}
