"""Cost of incremental refresh of the search workflow, against recomputation in plain PySpark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.bags import is_same_bag
from benchmarks.cost import Cost, measure_cost
from benchmarks.refresh import open_project, read_content, refresh
from benchmarks.search import INPUTS, TABLES, Web, build_workflow, recompute
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import Conflict

T = TypeVar("T")
WARM_UP = 30
"""Refreshes before the rounds: Java compiles hot code for about that long."""

UNCOUNTED_ROUNDS = 2
"""Rounds before those that count."""

_WARM_UP_SHARE = 0.001  # maximum share of the data in each warm-up refresh
_WARM_UP_START = 100_000  # first batch number of the warm-up; no round reaches it

COMPACTED_FILES = 2
"""Number of files of a fully compacted table."""


@dataclass(frozen=True, slots=True)
class Round:
    """Costs of one delta: incremental refresh, recomputation, and reads of the result."""

    incremental: Cost
    full: Cost
    read: Cost
    read_compacted: Cost
    variants: tuple[str, ...]  # variants that ran, one for each table
    equal: bool


def measure(
    directory: Path,
    *,
    pages: int,
    delta: float,
    rounds: int,
    warm_up: int = WARM_UP,
    variant: str | None = None,
    settings: Settings | None = None,
    on_progress: Callable[[str], None],
) -> dict[str, Any]:
    """Medians over rounds. Each round applies another delta of the same size to compacted tables."""
    with open_project(directory, build_workflow(), settings) as mill:
        bench = _Bench(mill, directory, Web(mill.engine.spark, pages, delta), variant)
        on_progress(f"preparing {pages} pages and {bench.web.clicks} clicks")
        bench.prepare()
        on_progress(f"warming up with {warm_up} refreshes")
        bench.warm_up(warm_up)
        results = [
            _run_round(on_progress, number - UNCOUNTED_ROUNDS, rounds, bench.run_round, number)
            for number in range(1, UNCOUNTED_ROUNDS + rounds + 1)
        ]
    return _summarize(pages, delta, results[UNCOUNTED_ROUNDS:])


def _run_round(
    on_progress: Callable[[str], None], round_number: int, rounds: int, action: Callable[[int], Round], number: int
) -> Round:
    result = action(number)
    name = "warm-up" if round_number <= 0 else f"round {round_number} of {rounds}"
    on_progress(f"{name}: refresh {result.incremental.seconds:.2f} s, recomputing {result.full.seconds:.2f} s")
    return result


def _summarize(pages: int, delta: float, rounds: list[Round]) -> dict[str, Any]:
    full_s = median(r.full.seconds for r in rounds)
    incremental_s = median(r.incremental.seconds for r in rounds)
    return {
        "pages": pages,
        "delta": delta,
        "full_s": round(full_s, 3),
        "incremental_s": round(incremental_s, 3),
        "ratio": round(incremental_s / full_s, 3),
        "full_cpu_s": round(median(r.full.cpu_seconds for r in rounds), 2),
        "incremental_cpu_s": round(median(r.incremental.cpu_seconds for r in rounds), 2),
        "read_s": round(median(r.read.seconds for r in rounds), 3),
        "read_compacted_s": round(median(r.read_compacted.seconds for r in rounds), 3),
        "peak_mb": round(max(r.incremental.peak_mb for r in rounds)),
        "equal": all(r.equal for r in rounds),
        "variant": " + ".join(dict.fromkeys(v for r in rounds for v in r.variants)),
        "rounds": len(rounds),
    }


@dataclass(frozen=True, slots=True)
class _Bench:
    """The workflow in its project, and a scratch directory for the files of plain Spark."""

    mill: Tidemill
    directory: Path
    web: Web
    variant: str | None

    @property
    def spark(self) -> SparkSession:
        return self.mill.engine.spark

    def prepare(self) -> None:
        self._insert(self.web.create_batch(0))
        for table in TABLES:
            refresh(self.mill, table)
        self._compact()

    def warm_up(self, refreshes: int) -> None:
        small_web = Web(self.spark, self.web.pages, min(self.web.share, _WARM_UP_SHARE))
        for number in range(_WARM_UP_START, _WARM_UP_START + refreshes):
            self._insert(small_web.create_batch(number))
            self._refresh()
        self._compact()

    def run_round(self, number: int) -> Round:
        """Measure both methods, in one order in odd rounds and in the reverse order in even rounds."""
        self._insert(self.web.create_batch(number))
        inputs, output, compacted = (
            self._clear_directory("inputs"),
            self._clear_directory("output"),
            self._clear_directory("compacted"),
        )
        for channel in INPUTS:
            read_content(self.mill, channel).write.parquet(str(inputs / channel))
        variants: list[str] = []
        costs = _measure_alternately(
            number,
            {
                "incremental": lambda: variants.extend(self._refresh()),
                "full": lambda: recompute(self.spark, inputs, output),
            },
        )
        read_content(self.mill, "ranked").coalesce(COMPACTED_FILES).write.parquet(str(compacted))
        read_costs = _measure_alternately(
            number,
            {
                "ranked": lambda: _read_all_values(self.mill.read("ranked")),
                "compacted": lambda: _read_all_values(self._read_stored(compacted)),
            },
        )
        equal = is_same_bag(read_content(self.mill, "ranked"), self._read_stored(output))
        self._compact()
        return Round(
            costs["incremental"], costs["full"], read_costs["ranked"], read_costs["compacted"], tuple(variants), equal
        )

    def _insert(self, batch: Mapping[str, DataFrame]) -> None:
        for channel, rows in batch.items():
            self.mill.insert(channel, rows)

    def _refresh(self) -> list[str]:
        return [refresh(self.mill, table, self.variant) for table in TABLES]

    def _compact(self) -> None:
        """Compact all channels, so that every round starts from bases."""
        for state in self.mill.catalog.list_channels():
            with suppress(Conflict):  # maintenance has just compacted it
                self.mill.compact(state.channel.name)

    def _clear_directory(self, name: str) -> Path:
        path = self.directory / "scratch" / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def _read_stored(self, path: Path) -> DataFrame:
        return self.spark.read.schema(read_content(self.mill, "ranked").schema).parquet(str(path))


def _measure_alternately(number: int, actions: Mapping[str, Callable[[], object]]) -> dict[str, Cost]:
    names = list(actions)[:: 1 if number % 2 else -1]
    return {name: measure_cost(actions[name]) for name in names}


def _read_all_values(frame: DataFrame) -> None:
    """Read every value of every column, without storing a result."""
    frame.agg(F.count("*"), F.bit_xor(F.xxhash64(*frame.columns))).collect()
