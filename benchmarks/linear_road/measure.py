"""Cost of the workflow's kernel without Spark: per batch, and per thousand rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks.linear_road.rows import Columns, split_batches
from benchmarks.linear_road.traffic import Plan, generate_traffic
from benchmarks.linear_road.validator import compare_answers, compute_expected
from benchmarks.linear_road.vehicles import LAYOUT
from benchmarks.linear_road.workflow import LinearRoad
from tidemill.stream.cache import StateCache
from tidemill.stream.keyed import merge_outputs
from tidemill.stream.state_blocks import rebuild_table
from tidemill.stream.table import StateTable

WARM_UP = 30  # seconds until every vehicle on the road has reported once


class _StageTimes:
    """CPU seconds of this process by stage, which other processes affect less than wall-clock time."""

    def __init__(self) -> None:
        self._last = time.process_time()
        self.seconds: dict[str, float] = {}

    def end(self, part: str) -> None:
        now = time.process_time()
        self.seconds[part], self._last = now - self._last, now


def measure(
    directory: Path,
    *,
    plan: Plan,
    batch: int = 1,
    sizes: tuple[float, ...] = (1.0, 4.0),
    check: bool = True,
    on_progress: Callable[[str], None],
) -> dict[str, Any]:
    """Run a plan with several numbers of expressways; fit the cost of a batch as a fixed and a per-row part."""
    points = [
        _measure_point(directory / str(n), replace(plan, expressways=n), batch, check, on_progress) for n in sizes
    ]
    return {"points": points, **_fit_cost([p["rows_a_batch"] for p in points], [p["kernel_ms"] for p in points])}


def _fit_cost(rows: Sequence[float], milliseconds: Sequence[float]) -> dict[str, float]:
    """The fixed cost of a batch, and the cost of a thousand rows; needs two points or more."""
    if len(rows) < 2:
        return {}
    fixed, per_row = np.polynomial.Polynomial.fit(rows, milliseconds, 1).convert().coef
    return {"fixed_ms": round(float(fixed), 2), "ms_per_1000_rows": round(float(per_row) * 1000, 3)}


def _measure_point(
    directory: Path, plan: Plan, batch: int, check: bool, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    on_progress(f"generating traffic on {plan.expressways:g} expressways")
    rows, history = generate_traffic(plan)
    road = LinearRoad(ceil(plan.expressways), history)
    on_progress(f"running {len(rows['time'])} rows in batches of {batch} s")
    runner = _Runner(road, directory)
    answers = merge_outputs([runner.run(part) for part in split_batches(rows, batch)])
    warm = [b for b in runner.batches if b["time"] >= plan.start + WARM_UP]
    verdict = compare_answers(compute_expected(rows, history), answers) if check else None
    return {
        "expressways": plan.expressways,
        "batches": len(warm),
        "rows_a_batch": round(float(np.median([b["rows"] for b in warm])), 1),
        **{f"{part}_ms": round(float(np.median([b[part] for b in warm])) * 1000, 2) for part in _PARTS},
        "slowest_kernel_ms": round(max(b["kernel"] for b in warm) * 1000, 2),
        "vehicles": road.partitions[0].vehicles.count,
        "answers": {kind: len(columns["time"]) for kind, columns in answers.items()},
        "exact": None if verdict is None else verdict.has_passed,
    }


_PARTS = ("hold", "kernel", "leave", "write")


class _Runner:
    """Runs batches like a task: on cached state of the last version, with a durable write of the delta."""

    def __init__(self, road: LinearRoad, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._road = road
        self._directory = directory
        self._cache = StateCache(directory / "cache")
        self._paths: list[Path] = []
        self.batches: list[Mapping[str, float]] = []

    def run(self, rows: Columns) -> Mapping[str, Columns]:
        laps, number = _StageTimes(), len(self.batches)
        with self._cache.acquire_state("vehicles", LAYOUT, f"batch {number}", self._rebuild) as state:
            self._road.partitions[0].vehicles = state.table
            laps.end("hold")
            answers, deltas = self._road.run(rows)
            laps.end("kernel")
            state.save_version(f"batch {number + 1}")
        laps.end("leave")
        self._write(pa.concat_tables(deltas["0 vehicles"]))
        laps.end("write")
        self.batches.append(laps.seconds | {"rows": len(rows["time"]), "time": int(rows["time"][0])})
        return answers

    def _write(self, table: pa.Table) -> None:
        path = self._directory / f"{len(self.batches)}.parquet"
        with path.open("wb") as file:
            parquet.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        self._paths.append(path)

    def _rebuild(self) -> StateTable:
        return rebuild_table(LAYOUT, (parquet.read_table(path) for path in self._paths))
