"""Linear Road in real time, through real runs: rows are inserted at their due times, answered, and committed.

The rows of a second are inserted when that second has ended. The response time is measured from the beginning of the
second of the row to the commit of the run that answers it, so it includes one second of waiting. A run that is behind
takes all ended seconds in one batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.linear_road.rows import ANSWERS, HISTORY, INPUT, LIMITS, Columns, concat_batches, split_batches
from benchmarks.linear_road.tolling import TOLLING, build_workflow
from benchmarks.linear_road.validator import Verdict, compare_answers, compute_expected
from tidemill.app.project import Project
from tidemill.app.settings import MaintenanceSettings, Settings
from tidemill.app.wiring import Tidemill
from tidemill.model.block import Block

PERCENTILES = (50, 90, 99, 100)
ProgressReporter = Callable[[str], None]
Times = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Clock:
    """The wall clock, or a clock of a test."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Lap:
    """Figures of one batch."""

    rows: int
    second: int  # last second of its rows
    insert: float  # seconds
    run: float
    emitted: float  # on the benchmark's clock
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Live:
    """Result of a run of the benchmark."""

    laps: Sequence[Lap]
    answers: Mapping[str, Columns]
    emitted: Mapping[str, Times] = field(repr=False)

    def get_response_times(self, kind: str) -> Times:
        """Seconds from each event to its answer."""
        return self.emitted[kind] - self.answers[kind]["time"]


def play(directory: Path, rows: Columns, history: Columns, clock: Clock, on_progress: ProgressReporter) -> Live:
    """Answer all rows; all state of the workflow is stored in the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    roads = ceil(int(rows["xway"].max(initial=0)) + 1)
    settings = Settings(maintenance=MaintenanceSettings(automatic=False))
    with Tidemill(directory, settings, Project((build_workflow(roads).build_spec(),))) as mill:
        mill.apply()
        mill.insert("history", write_rows(directory, history, HISTORY))
        mill.run(TOLLING)  # one-time initialisation and reading the history, before the clock starts
        laps = list(_run_laps(mill, directory, list(split_batches(rows, 1)), clock, on_progress))
        return collect_answers(mill, laps)


def _run_laps(
    mill: Tidemill, directory: Path, seconds: Sequence[Columns], clock: Clock, on_progress: ProgressReporter
) -> Iterator[Lap]:
    start = int(seconds[0]["time"][0])
    began, first_batch = clock.now(), 0

    def read_clock() -> float:
        return start + clock.now() - began

    while first_batch < len(seconds):
        second_end = int(seconds[first_batch]["time"][0]) + 1
        clock.sleep(max(0.0, second_end - read_clock()))
        end_batch = max(
            first_batch + 1, sum(int(s["time"][0]) + 1 <= read_clock() for s in seconds[first_batch:]) + first_batch
        )
        lap = _run_lap(mill, directory, seconds[first_batch:end_batch], clock, read_clock)
        if (lap.second - start) % 60 == 0:
            on_progress(
                f"second {lap.second}: {lap.rows} rows, answered {lap.emitted - lap.second:.2f} s after it began"
            )
        yield lap
        first_batch = end_batch
        if is_too_late(lap.emitted, lap.second):
            on_progress(f"aborted at second {lap.second}: too far behind")
            return


def _run_lap(
    mill: Tidemill, directory: Path, batch: Sequence[Columns], clock: Clock, read_clock: Callable[[], float]
) -> Lap:  # fmt: skip
    rows = concat_batches(batch)
    began = clock.now()
    mill.insert("reports", write_rows(directory, rows, INPUT))
    inserted = clock.now()
    _, blocks = mill.run(TOLLING)
    emitted = read_clock()
    answers = tuple(b for b in blocks if b.channel in ANSWERS)
    return Lap(len(rows["time"]), int(rows["time"][-1]), inserted - began, clock.now() - inserted, emitted, answers)


def write_rows(directory: Path, rows: Columns, names: Sequence[str]) -> Path:
    path = directory / "rows.parquet"
    pq.write_table(pa.table({name: rows[name] for name in names}), path, compression="none")
    return path


def collect_answers(mill: Tidemill, laps: Sequence[Lap]) -> Live:
    """Read all answers from the files of the committed blocks."""
    answers, emitted = {}, {}
    for kind, (_, names) in ANSWERS.items():
        parts = [
            (lap.emitted, _read_block(mill, b)) for lap in laps for b in lap.blocks if b.channel == kind and b.files
        ]
        columns = [n for n in names if n != "emit"]
        answers[kind] = {n: _concat_columns([rows[n].to_numpy() for _, rows in parts]) for n in columns}
        emitted[kind] = np.repeat([t for t, _ in parts], [rows.num_rows for _, rows in parts]).astype(np.float64)
    return Live(laps, answers, emitted)


def _read_block(mill: Tidemill, block: Block) -> pa.Table:
    return pa.concat_tables([pq.read_table(mill.store.locate_file(f.path)) for f in block.files])


def _concat_columns(columns: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *columns])


def compute_verdict(live: Live, rows: Columns, history: Columns) -> Verdict:
    answers = {kind: {**columns, "emit": live.emitted[kind]} for kind, columns in live.answers.items()}
    return compare_answers(compute_expected(rows, history), answers)


def is_too_late(emitted: float, second: int) -> bool:
    """Whether the delay exceeds the limits of all kinds of answers."""
    return emitted - second > max(LIMITS.values())


def is_in_time(live: Live) -> bool:
    return all((live.get_response_times(kind) <= limit).all() for kind, limit in LIMITS.items())


def summarize(live: Live) -> dict[str, Any]:
    """Response times by kind of answer, and costs of a batch."""
    kinds = {kind: _compute_percentiles(live.get_response_times(kind)) for kind in ANSWERS}
    laps = live.laps
    seconds_by_part = {"insert": [lap.insert for lap in laps], "run": [lap.run for lap in laps]}
    return {
        "batches": len(laps),
        "rows": sum(lap.rows for lap in laps),
        "response_s": kinds,
        "batch_ms": {name: _compute_percentiles(np.array(seconds) * 1000) for name, seconds in seconds_by_part.items()},
        "under_2_s": round(float(np.mean(np.concatenate([live.get_response_times(k) for k in ANSWERS]) < 2.0)), 5),
        "in_time": is_in_time(live),
    }


def _compute_percentiles(values: Times) -> dict[str, float]:
    if not len(values):
        return {"count": 0}
    percentiles = np.percentile(values, PERCENTILES)
    return {"count": len(values)} | {f"p{p}": round(float(v), 3) for p, v in zip(PERCENTILES, percentiles, strict=True)}
