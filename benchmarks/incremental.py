"""What keeping the search workflow fresh costs, against recomputing it by plain PySpark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.bags import same_bag
from benchmarks.cost import Cost, measured
from benchmarks.refresh import looked_at, project, refresh
from benchmarks.search import INPUTS, TABLES, Web, recompute, workflow
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill

T = TypeVar("T")
WARM_UP = 30
"""Refreshes before the rounds: Java goes on compiling what runs often for that long."""

LEAD = 2
"""Whole rounds before those that count."""

_LITTLE = 0.001  # of the data comes with each refresh that warms up, or less
_FAR = 100_000  # batches of the warm-up have numbers that no round reaches

FILES = 2
"""Of a fully compacted table."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one delta cost in either way, and what reading the result cost."""

    incremental: Cost
    full: Cost
    read: Cost
    read_compacted: Cost
    variants: tuple[str, ...]  # that ran, one a table
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
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Medians over rounds. Each applies another delta of the same size to tables compacted before."""
    with project(directory, workflow(), settings) as mill:
        bench = _Bench(mill, directory, Web(mill.engine.spark, pages, delta), variant)
        tell(f"preparing {pages} pages and {bench.web.clicks} clicks")
        bench.prepare()
        tell(f"warming up with {warm_up} refreshes")
        bench.warm_up(warm_up)
        done = [_told(tell, number - LEAD, rounds, bench.round, number) for number in range(1, LEAD + rounds + 1)]
    return _summary(pages, delta, done[LEAD:])


def _told(tell: Callable[[str], None], counted: int, rounds: int, work: Callable[[int], Round], number: int) -> Round:
    done = work(number)
    name = "warm-up" if counted <= 0 else f"round {counted} of {rounds}"
    tell(f"{name}: refresh {done.incremental.seconds:.2f} s, recomputing {done.full.seconds:.2f} s")
    return done


def _summary(pages: int, delta: float, rounds: list[Round]) -> dict[str, Any]:
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
    """The workflow in its project, and a scratch directory for what plain Spark reads and writes."""

    mill: Tidemill
    directory: Path
    web: Web
    variant: str | None

    @property
    def spark(self) -> SparkSession:
        return self.mill.engine.spark

    def prepare(self) -> None:
        self._insert(self.web.batch(0))
        for table in TABLES:
            refresh(self.mill, table)
        self._compact()

    def warm_up(self, refreshes: int) -> None:
        few = Web(self.spark, self.web.pages, min(self.web.share, _LITTLE))
        for number in range(_FAR, _FAR + refreshes):
            self._insert(few.batch(number))
            self._refresh()
        self._compact()

    def round(self, number: int) -> Round:
        """Ways are measured in one order in odd rounds and in the other in even ones."""
        self._insert(self.web.batch(number))
        inputs, output, compacted = self._scratch("inputs"), self._scratch("output"), self._scratch("compacted")
        for channel in INPUTS:
            looked_at(self.mill, channel).write.parquet(str(inputs / channel))
        variants: list[str] = []
        made = _in_turn(
            number,
            {
                "incremental": lambda: variants.extend(self._refresh()),
                "full": lambda: recompute(self.spark, inputs, output),
            },
        )
        looked_at(self.mill, "ranked").coalesce(FILES).write.parquet(str(compacted))
        read = _in_turn(
            number,
            {
                "ranked": lambda: _read_whole(self.mill.read("ranked")),
                "compacted": lambda: _read_whole(self._stored(compacted)),
            },
        )
        equal = same_bag(looked_at(self.mill, "ranked"), self._stored(output))
        self._compact()
        return Round(made["incremental"], made["full"], read["ranked"], read["compacted"], tuple(variants), equal)

    def _insert(self, batch: Mapping[str, DataFrame]) -> None:
        for channel, rows in batch.items():
            self.mill.insert(channel, rows)

    def _refresh(self) -> list[str]:
        return [refresh(self.mill, table, self.variant) for table in TABLES]

    def _compact(self) -> None:
        """So that every round starts from bases, however many rounds there were before."""
        for known in self.mill.catalog.list_channels():
            self.mill.compact(known.channel.name)

    def _scratch(self, name: str) -> Path:
        path = self.directory / "scratch" / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def _stored(self, path: Path) -> DataFrame:
        return self.spark.read.schema(looked_at(self.mill, "ranked").schema).parquet(str(path))


def _in_turn(number: int, ways: Mapping[str, Callable[[], object]]) -> dict[str, Cost]:
    names = list(ways)[:: 1 if number % 2 else -1]
    return {name: measured(ways[name]) for name in names}


def _read_whole(frame: DataFrame) -> None:
    """Every value of every column is needed for this, and nothing is kept."""
    frame.agg(F.count("*"), F.bit_xor(F.xxhash64(*frame.columns))).collect()
