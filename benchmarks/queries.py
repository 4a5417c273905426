"""The 22 queries of TPC-H: incremental refresh under TPC-H's refresh functions, against recomputation.

The figures are not TPC-H results and cannot be compared with them.
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
from benchmarks.bags import is_same_bag
from benchmarks.cost import measure_cost
from benchmarks.refresh import open_project, read_content, refresh
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import TidemillError
from tidemill.spark.session import start_session

REFRESHED_SHARE = 0.001
"""The share of orders that a refresh inserts or deletes, by the specification."""

_CHANGING = ("orders", "lineitem")
_FORCED = "_forced"


@dataclass(frozen=True, slots=True)
class RefreshTiming:
    """One refresh of a query's table; `unsupported_reason` is set if the requested variant could not run."""

    variant: str
    seconds: float
    equal: bool
    unsupported_reason: str | None = None


@dataclass(frozen=True, slots=True)
class QueryTiming:
    """One query after one change: its refreshes, and the seconds of recomputation."""

    query: int
    automatic: RefreshTiming
    forced: RefreshTiming | None  # with the incremental variant, if requested
    recompute_seconds: float


def measure(
    directory: Path,
    *,
    scale: float,
    only: Sequence[int] = tpch.NUMBERS,
    share: float = REFRESHED_SHARE,
    rounds: int = 1,
    warm_up: int = 1,
    forced: bool = False,
    settings: Settings | None = None,
    on_progress: Callable[[str], None],
) -> dict[str, Any]:
    """A point for each query: medians over rounds; each round inserts orders, then deletes others."""
    project_settings = settings or Settings()
    spark = start_session(project_settings.spark.master, project_settings.spark.settings)
    on_progress(f"generating the tables at scale {scale:g}")
    tables = tpch.read_tables(spark, tpch.generate(directory / "tables", scale))
    queries = tpch.get_table_names(only) | (tpch.get_table_names(only, _FORCED) if forced else {})
    with open_project(directory, tpch.build_workflow(tables, queries), settings) as mill:
        bench = _Bench(mill, directory / "scratch", tables, share, forced, on_progress)
        bench.prepare(queries)
        timings = [
            result
            for number in range(warm_up + rounds)
            for result in bench.run_round(only, number)
            if number >= warm_up
        ]
        variants = {number: bench.variants(name) for name, number in tpch.get_table_names(only).items()}
    points = [_summarize_query(variants[number], [r for r in timings if r.query == number]) for number in only]
    return {"scale": scale, "share": share, "rounds": rounds, "points": points}


@dataclass(frozen=True, slots=True)
class _Bench:
    """The queries in their project; `scratch` contains the files of plain Spark."""

    mill: Tidemill
    scratch: Path
    tables: Mapping[str, DataFrame]
    share: float
    forced: bool
    on_progress: Callable[[str], None]

    def prepare(self, queries: Mapping[str, int]) -> None:
        tpch.load(self.mill, self.tables)
        for name in queries:
            self.on_progress(f"first run of {name}")
            refresh(self.mill, name)

    def variants(self, table: str) -> str:
        """The refresh modes of a table; the modes for single inputs are listed once."""
        (writer,) = self.mill.explain(table).writers
        return ", ".join(dict.fromkeys(v.name.partition(":")[0] for v in writer.variants))

    def run_round(self, queries: Sequence[int], turn: int) -> Iterator[QueryTiming]:
        for change in tpch.REFRESHES:
            tpch.apply(self.mill, change, self.share, turn)
            tables = {**self.tables, **self._export_changed_tables()}
            for number in queries:
                timing = self._refresh_query(number, tables)
                self.on_progress(f"{change}, query {number}: {_format_timing(timing)}")
                yield timing
            for channel in _CHANGING:  # so that the number of deltas to merge stays constant
                self.mill.compact(channel)

    def _export_changed_tables(self) -> dict[str, DataFrame]:
        """Write the full content of the changed tables to plain files, so that recomputation merges nothing."""
        return {channel: self._write_and_read(read_content(self.mill, channel), channel) for channel in _CHANGING}

    def _refresh_query(self, number: int, tables: Mapping[str, DataFrame]) -> QueryTiming:
        recompute_cost = measure_cost(lambda: self._write_and_read(tpch.compute_query(tables, number), "result"))
        expected = self.mill.spark.read.parquet(str(self.scratch / "result"))
        (name,), (forced,) = tpch.get_table_names([number]), tpch.get_table_names([number], _FORCED)
        automatic = self._time_refresh(name, None, expected)
        return QueryTiming(
            number,
            automatic,
            self._time_refresh(forced, "incremental", expected) if self.forced else None,
            recompute_cost.seconds,
        )

    def _time_refresh(self, name: str, variant: str | None, expected: DataFrame) -> RefreshTiming:
        variants: list[str] = []
        try:
            cost = measure_cost(lambda: variants.append(refresh(self.mill, name, variant)))
        except TidemillError as error:
            if variant is None:
                raise
            return RefreshTiming("none", 0.0, equal=True, unsupported_reason=str(error))
        return RefreshTiming(variants[0], cost.seconds, is_same_bag(read_content(self.mill, name), expected))

    def _write_and_read(self, rows: DataFrame, name: str) -> DataFrame:
        path = self.scratch / name
        shutil.rmtree(path, ignore_errors=True)
        rows.write.parquet(str(path))
        return rows.sparkSession.read.schema(rows.schema).parquet(str(path))


def _format_timing(timing: QueryTiming) -> str:
    automatic = timing.automatic
    equal = "equal" if automatic.equal else "DIFFERENT"
    return f"{automatic.variant} in {automatic.seconds:.2f} s, from scratch {timing.recompute_seconds:.2f} s, {equal}"


def _summarize_query(variants: str, timings: Sequence[QueryTiming]) -> dict[str, Any]:
    """A query's variants and times; the fields of the forced variant exist only if it was requested."""
    recompute_s = median(r.recompute_seconds for r in timings)
    automatic = [r.automatic for r in timings]
    forced = [r.forced for r in timings if r.forced is not None]
    return {
        "query": timings[0].query,
        "variants": variants,
        "recompute_s": round(recompute_s, 3),
        **_summarize(automatic, recompute_s),
        **{
            f"forced_{name}": value
            for name, value in (_summarize_forced(forced, recompute_s) if forced else {}).items()
        },
        "equal": all(refresh_timing.equal for refresh_timing in automatic + forced),
    }


def _summarize(timings: Sequence[RefreshTiming], recompute_s: float) -> dict[str, Any]:
    refresh_s = median(t.seconds for t in timings)
    return {
        "variant": " + ".join(dict.fromkeys(t.variant for t in timings)),
        "refresh_s": round(refresh_s, 3),
        "speedup": round(recompute_s / refresh_s, 2),
    }


def _summarize_forced(timings: Sequence[RefreshTiming], recompute_s: float) -> dict[str, Any]:
    unsupported_reason = next((t.unsupported_reason for t in timings if t.unsupported_reason), None)
    if unsupported_reason is not None:
        return {"variant": None, "refresh_s": None, "speedup": None, "refused": unsupported_reason}
    return {**_summarize(timings, recompute_s), "refused": None}
