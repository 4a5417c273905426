"""Cost of incremental refresh of the search workflow, against recomputation in plain PySpark.

Four cases, each a ratio to recomputation under the same conditions: the best case (warm, from compacted tables), the
amortised case (many refreshes in a row with default maintenance, which counts), the cold case (the first refresh of a
new process), and Spark alone (the best case without the local engine).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.bags import is_same_bag
from benchmarks.cost import Cost, measure_cost
from benchmarks.refresh import open_project, read_content, refresh
from benchmarks.search import INPUTS, TABLES, Web, build_workflow, recompute
from tidemill.app.settings import EngineSettings, Settings
from tidemill.app.wiring import Tidemill

T = TypeVar("T")
WARM_UP = 30
"""Refreshes before the rounds: Java compiles hot code for about that long."""

UNCOUNTED_ROUNDS = 2
"""Rounds before those that count."""

_WARM_UP_SHARE = 0.001  # maximum share of the data in each warm-up refresh
_WARM_UP_START = 100_000  # first batch number of the warm-up; no round reaches it

_SUSTAINED_START, _COLD_START, _SPARK_ONLY_START = 10_000, 20_000, 30_000  # first batch numbers of the other cases
_SPARK_ONLY_WARM_UP = 6

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
    sustained: int = 0,
    other_cases: bool = False,
    variant: str | None = None,
    settings: Settings | None = None,
    on_progress: Callable[[str], None],
) -> dict[str, Any]:
    """Medians over rounds. Each round applies another delta of the same size to compacted tables.

    `sustained`: the number of refreshes in a row of the amortised case. `other_cases`: also measure the cold case and
    Spark alone, in new processes.
    """
    with open_project(directory, build_workflow(), settings) as mill:
        bench = _Bench(mill, directory, Web(mill.spark, pages, delta), variant)
        on_progress(f"preparing {pages} pages and {bench.web.clicks} clicks")
        bench.prepare()
        on_progress(f"warming up with {warm_up} refreshes")
        bench.warm_up(warm_up)
        results = [
            _run_round(on_progress, number - UNCOUNTED_ROUNDS, rounds, bench.run_round, number)
            for number in range(1, UNCOUNTED_ROUNDS + rounds + 1)
        ]
        counted = results[UNCOUNTED_ROUNDS:]
        point = _summarize(pages, delta, counted)
        if sustained:
            on_progress(f"{sustained} refreshes in a row with default maintenance")
            point |= _summarize_sustained([bench.run_sustained(n) for n in range(sustained)], counted)
    if other_cases:
        point |= _measure_other_cases(directory, pages, delta, rounds, on_progress)
    return point


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


def _summarize_sustained(costs: list[tuple[Cost, Cost]], rounds: list[Round]) -> dict[str, Any]:
    """Means over all refreshes of the cost with maintenance, and its share of maintenance."""
    seconds = sum(r.seconds + m.seconds for r, m in costs) / len(costs)
    cpu_seconds = sum(r.cpu_seconds + m.cpu_seconds for r, m in costs) / len(costs)
    return {
        "sustained": len(costs),
        "amortised_s": round(seconds, 3),
        "amortised_cpu_s": round(cpu_seconds, 2),
        "maintenance_share": round(sum(m.seconds for _, m in costs) / (seconds * len(costs)), 3),
        "amortised_ratio": round(median(r.full.seconds for r in rounds) / seconds, 2),
        "amortised_cpu_ratio": round(median(r.full.cpu_seconds for r in rounds) / cpu_seconds, 2),
    }


def _measure_other_cases(
    directory: Path, pages: int, delta: float, rounds: int, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    """Figures of new processes, which continue with the project."""
    on_progress("the first refresh and the first recomputation of new processes")
    refreshes, recomputations = [], []
    for number in range(_COLD_START, _COLD_START + rounds):
        refreshes.append(_run_in_process(_measure_cold_refresh, directory, pages, delta, number))
        recomputations.append(_run_in_process(_measure_cold_recomputation, directory))
    on_progress("without the local engine")
    spark_only = _run_in_process(_measure_spark_only, directory, pages, delta, rounds)
    return {
        "cold_s": round(median(c.seconds for c in refreshes), 3),
        "cold_full_s": round(median(c.seconds for c in recomputations), 3),
        "cold_ratio": _compare(refreshes, recomputations, lambda c: c.seconds),
        "cold_cpu_ratio": _compare(refreshes, recomputations, lambda c: c.cpu_seconds),
        "spark_only_s": round(median(r.incremental.seconds for r in spark_only), 3),
        "spark_only_ratio": _compare(
            [r.incremental for r in spark_only], [r.full for r in spark_only], lambda c: c.seconds
        ),
    }


def _compare(refreshes: list[Cost], recomputations: list[Cost], figure: Callable[[Cost], float]) -> float:
    return round(median(map(figure, recomputations)) / median(map(figure, refreshes)), 2)


def _run_in_process(function: Callable[..., T], *arguments: Any) -> T:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _measure_cold_refresh(directory: Path, pages: int, delta: float, number: int) -> Cost:
    with open_project(directory, build_workflow()) as mill:
        bench = _Bench(mill, directory, Web(mill.spark, pages, delta), None)
        bench.insert(bench.web.create_batch(number))
        bench.store_inputs()
        return measure_cost(bench.refresh)


def _measure_cold_recomputation(directory: Path) -> Cost:
    with open_project(directory, build_workflow()) as mill:
        bench = _Bench(mill, directory, Web(mill.spark, 1, 1.0), None)
        output = bench.clear_directory("output")
        return measure_cost(lambda: recompute(bench.spark, bench.inputs, output))


def _measure_spark_only(directory: Path, pages: int, delta: float, rounds: int) -> list[Round]:
    with open_project(directory, build_workflow(), Settings(engine=EngineSettings(local="off"))) as mill:
        bench = _Bench(mill, directory, Web(mill.spark, pages, delta), None)
        bench.warm_up(_SPARK_ONLY_WARM_UP, _SPARK_ONLY_START)
        first = _SPARK_ONLY_START + _SPARK_ONLY_WARM_UP
        return [bench.run_round(n) for n in range(first, first + UNCOUNTED_ROUNDS + rounds)][UNCOUNTED_ROUNDS:]


@dataclass(frozen=True, slots=True)
class _Bench:
    """The workflow in its project, and a scratch directory for the files of plain Spark."""

    mill: Tidemill
    directory: Path
    web: Web
    variant: str | None

    @property
    def spark(self) -> SparkSession:
        spark: SparkSession = self.mill.spark
        return spark

    def prepare(self) -> None:
        self.insert(self.web.create_batch(0))
        for table in TABLES:
            refresh(self.mill, table)
        self._compact()

    def warm_up(self, refreshes: int, first: int = _WARM_UP_START) -> None:
        small_web = Web(self.spark, self.web.pages, min(self.web.share, _WARM_UP_SHARE))
        for number in range(first, first + refreshes):
            self.insert(small_web.create_batch(number))
            self.refresh()
        self._compact()

    def run_round(self, number: int) -> Round:
        """Measure both methods, in one order in odd rounds and in the reverse order in even rounds."""
        self.insert(self.web.create_batch(number))
        self.store_inputs()
        output, compacted = self.clear_directory("output"), self.clear_directory("compacted")
        variants: list[str] = []
        costs = _measure_alternately(
            number,
            {
                "incremental": lambda: variants.extend(self.refresh()),
                "full": lambda: recompute(self.spark, self.inputs, output),
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
        self.mill.maintenance.finish()
        return Round(
            costs["incremental"], costs["full"], read_costs["ranked"], read_costs["compacted"], tuple(variants), equal
        )

    def run_sustained(self, number: int) -> tuple[Cost, Cost]:
        """The costs of a refresh and of the maintenance that the insert before it and the refresh cause."""
        self.insert(self.web.create_batch(_SUSTAINED_START + number))
        after_insert = measure_cost(self.mill.maintenance.finish)
        refresh_cost = measure_cost(self.refresh)
        after_refresh = measure_cost(self.mill.maintenance.finish)
        return refresh_cost, after_insert + after_refresh

    @property
    def inputs(self) -> Path:
        return self.directory / "scratch" / "inputs"

    def store_inputs(self) -> None:
        """Write the contents of the inputs as files for plain Spark."""
        self.clear_directory("inputs")
        for channel in INPUTS:
            read_content(self.mill, channel).write.parquet(str(self.inputs / channel))

    def insert(self, batch: Mapping[str, DataFrame]) -> None:
        for channel, rows in batch.items():
            self.mill.insert(channel, rows)

    def refresh(self) -> list[str]:
        return [refresh(self.mill, table, self.variant) for table in TABLES]

    def _compact(self) -> None:
        """Compact all channels, so that every round starts from bases."""
        for state in self.mill.catalog.channels.list():
            self.mill.compact(state.channel.name)

    def clear_directory(self, name: str) -> Path:
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
