"""Cost of a batch of a keyed task: on the driver, and in Spark's Python workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.linear_road.conditions import Conditions
from benchmarks.linear_road.rows import FEET, REPORT, SEGMENTS
from benchmarks.linear_road.vehicles import LAYOUT, VehicleFunction
from tidemill.spark import keyed
from tidemill.stream.keyed import Function

ROADS = 20
PARTITIONS = 2


def measure(directory: Path, spark: SparkSession, *, sizes: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    """Milliseconds of a batch of vehicles' reports by its rows, in both places; medians with warm state."""
    function = VehicleFunction(Conditions.create_empty(ROADS))
    return [_measure_point(directory, spark, function, size, rounds) for size in sizes]


def _measure_point(directory: Path, spark: SparkSession, function: Function, size: int, rounds: int) -> dict[str, Any]:
    def driver(state: keyed.KeyedStateLocation, events: pa.Table) -> object:
        return keyed.run_batch(state, state.build_partition(0, 1), function, events, list)

    def workers(state: keyed.KeyedStateLocation, events: pa.Table) -> object:
        return keyed.run_in_workers(spark, state, function, events, (), PARTITIONS)

    places = {"driver": driver, "workers": workers}
    return {"rows": size} | {
        f"{n}_ms": _time_batches(directory / f"{n}-{size}", run, size, rounds) for n, run in places.items()
    }


def _time_batches(
    directory: Path, run_batch: Callable[[keyed.KeyedStateLocation, pa.Table], object], size: int, rounds: int
) -> float:
    seconds = []
    for version in range(rounds + 2):  # the first ones create the state and start the workers
        events = _generate_reports(size, version)
        state = keyed.KeyedStateLocation(LAYOUT, "vehicles", version, version + 1, str(directory))
        began = time.perf_counter()
        run_batch(state, events)
        seconds.append(time.perf_counter() - began)
    return round(median(seconds[2:]) * 1000, 1)


def _generate_reports(size: int, version: int) -> pa.Table:
    """One report of each vehicle, on a random road."""
    chance = np.random.default_rng(version)
    seg = chance.integers(0, SEGMENTS, size)
    road = chance.integers(0, ROADS, size)
    columns = {
        "type": np.full(size, REPORT),
        "time": np.full(size, version * 30),
        "vid": np.arange(size),
        "spd": chance.integers(0, 100, size),
        "xway": road // 2,
        "lane": chance.integers(1, 4, size),
        "dir": road % 2,
        "seg": seg,
        "pos": seg * FEET + 7,
        "qid": np.full(size, -1),
    }
    return pa.table({name: column.astype(np.int64) for name, column in columns.items()})
