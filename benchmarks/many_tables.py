"""Staleness of many tables with freshness targets on one server with Spark.

`tidemill up` serves tables that each have the same target lag, `TABLES_PER_INPUT` for each input; every fourth table is
derived from another one. On each input new rows arrive once in the time of the target lag, the inputs in turn, so each
table must be refreshed about once in that time. The first lag after the start, in which all tables are computed for
the first time, is the warm-up. Then the targets of all tables are read from the catalog every few seconds.

Rule: a target is kept if no sample finds it exceeded by more than the slack that alarms have, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.goals import Goal, judge_goals
from benchmarks.server_process import run_server_process, wait_for_tracks, write_project
from benchmarks.tables_workflow import count_inputs, format_rows, format_workflow_file
from tidemill.app.wiring import Tidemill
from tidemill.runtime.inspect.status import TARGET_SLACK_SECONDS, read_target_statuses

ROWS = 50
"""Rows of each arrival."""
SAMPLE_SECONDS = 5.0

GOALS = (Goal("worst_excess_s", TARGET_SLACK_SECONDS, "no table exceeds its freshness target beyond the slack"),)


@dataclass(frozen=True, slots=True)
class TargetSample:
    """The targets of all tables at one time."""

    seconds: float  # since the end of the warm-up
    late: int  # tables that exceed their target by more than the slack
    excess: float  # the greatest excess of any table, in seconds
    refreshes: int  # so far


def measure(
    directory: Path, *, tables: int, minutes: float, lag_minutes: float, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    """Let data arrive for the warm-up and these minutes, and sample the targets after the warm-up."""
    lag = 60.0 * lag_minutes
    write_project(directory, format_workflow_file(tables, lag))
    on_progress(f"starting a server with {tables} tables, which are analysed first")
    samples: list[TargetSample] = []
    with run_server_process(directory) as process:
        wait_for_tracks(directory, process)
        with Tidemill.open(directory) as mill:
            on_progress(f"{lag:g} s to warm up, then {60 * minutes:g} s")
            for sample in _take_samples(mill, directory, count_inputs(tables), lag, 60.0 * minutes):
                samples.append(sample)
                on_progress(f"{sample.seconds:.0f} s: {sample.late} late, {sample.refreshes} refreshes")
    return summarize_samples(samples, tables=tables, lag=lag)


def _take_samples(mill: Tidemill, directory: Path, inputs: int, lag: float, seconds: float) -> Iterator[TargetSample]:
    began, arrived, sampled = time.monotonic(), 0, 0.0
    while (elapsed := time.monotonic() - began) < lag + seconds:
        if arrived <= elapsed / lag * inputs:
            _insert_rows(mill, directory, arrived % inputs, arrived // inputs)
            arrived += 1
        elif elapsed >= lag and elapsed - sampled >= SAMPLE_SECONDS:
            sampled = elapsed
            yield _read_sample(mill, elapsed - lag)
        else:
            time.sleep(0.05)


def _insert_rows(mill: Tidemill, directory: Path, source: int, turn: int) -> None:
    path = directory / "rows.csv"
    path.write_text(format_rows(source, turn * ROWS, ROWS))
    mill.insert(f"in{source}", path)


def _read_sample(mill: Tidemill, seconds: float) -> TargetSample:
    excesses = [
        max((status.staleness.get(path, 0.0) - bound for path, bound in status.bounds.items()), default=0.0)
        for status in read_target_statuses(mill.catalog).values()
    ]
    late = sum(excess > TARGET_SLACK_SECONDS for excess in excesses)
    derived = (c for c in mill.catalog.channels.list() if c.channel.freshness_target)
    return TargetSample(round(seconds, 1), late, round(max(excesses), 2), sum(c.head.seq for c in derived))


def summarize_samples(samples: list[TargetSample], *, tables: int, lag: float) -> dict[str, Any]:
    first, last = samples[0], samples[-1]
    minutes = (last.seconds - first.seconds) / 60 or 1.0
    figures = {
        "tables": tables,
        "target_lag_s": lag,
        "refreshes_a_minute": round((last.refreshes - first.refreshes) / minutes, 1),
        "late_tables": max(s.late for s in samples),
        "worst_excess_s": max(s.excess for s in samples),
        "samples": len(samples),
    }
    return {**figures, **judge_goals(GOALS, figures)}
