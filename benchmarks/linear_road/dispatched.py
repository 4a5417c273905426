"""Linear Road as two flows on one track: the dispatcher chooses which pending flow runs next.

It is the dispatcher of servers, with its policies and real runs. There are two flows to choose from: tolls, accidents
and balances are one, expenditures of past days the other. A run takes all available rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.linear_road.live import Clock, Lap, Live, ProgressReporter, collect_answers, is_too_late, write_rows
from benchmarks.linear_road.rows import ANSWERS, HISTORY, INPUT, Columns, concat_batches, split_batches
from benchmarks.linear_road.tolling import SPENDING, TOLLING, two_flows
from tidemill.app.project import Project
from tidemill.app.settings import MaintenanceSettings, Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import RunFailed
from tidemill.model.block import Block
from tidemill.model.run import Run, RunKind, RunState
from tidemill.runtime.runs.dispatch import DispatchConfig, RunDispatcher

FLOWS = (TOLLING, SPENDING)
PAUSE = 0.01
"""Seconds after which a policy that started nothing is called again: some begin rounds."""


def play(
    directory: Path, rows: Columns, history: Columns, policy: str, clock: Clock, on_progress: ProgressReporter
) -> Live:
    """Answer all rows with a policy; all state is stored in the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    roads = int(rows["xway"].max(initial=0)) + 1
    settings = Settings(maintenance=MaintenanceSettings(automatic=False))
    with Tidemill(directory, settings, Project((two_flows(roads).build_spec(),))) as mill:
        mill.apply()
        mill.insert("history", write_rows(directory, history, HISTORY))
        for flow in FLOWS:
            mill.run(flow)  # one-time initialisation before the clock starts
        dispatch = RunDispatcher(mill.catalog.flows, DispatchConfig(policy, "single", "none", tracks=1))
        return collect_answers(
            mill,
            list(_DispatchedRun(mill, dispatch, directory, list(split_batches(rows, 1)), clock).run_laps(on_progress)),
        )


@dataclass(slots=True)
class _DispatchedRun:
    """Inserts each second when it has ended, and runs the flows that the dispatcher chooses."""

    mill: Tidemill
    dispatch: RunDispatcher
    directory: Path
    seconds: Sequence[Columns]
    clock: Clock
    inserted: int = 0  # seconds that were inserted
    pending: dict[str, int] = field(
        default_factory=dict
    )  # by requested flow, the first second that it has not processed
    began: float = 0.0

    def run_laps(self, on_progress: ProgressReporter) -> Iterator[Lap]:
        self.began = self.clock.now()
        while self.inserted < len(self.seconds) or self.pending:
            rows, insert = self._insert_seconds()
            lap = self._run_flow(rows, insert)
            if lap is None:
                self._wait_for_work()
                continue
            yield lap
            if is_too_late(lap.emitted, lap.second):
                on_progress(f"aborted at second {lap.second}: too far behind")
                return

    def _read_clock(self) -> float:
        return self._get_second(0) + self.clock.now() - self.began

    def _get_second(self, number: int) -> int:
        return int(self.seconds[number]["time"][0])

    def _insert_seconds(self) -> tuple[int, float]:
        """Insert all seconds that have ended; returns their number of rows, and the seconds of the insert."""
        clock_time = self._read_clock()
        batches = [s for s in self.seconds[self.inserted :] if int(s["time"][0]) + 1 <= clock_time]
        if not batches:
            return 0, 0.0
        began, rows = self.clock.now(), concat_batches(batches)
        self.mill.insert("reports", write_rows(self.directory, rows, INPUT))
        for flow in FLOWS:
            if flow not in self.pending:
                self.mill.catalog.runs.request(RunKind.FLOW, flow)
                self.pending[flow] = self._get_second(self.inserted)
        self.inserted += len(batches)
        return len(rows["time"]), self.clock.now() - began

    def _run_flow(self, rows: int, insert: float) -> Lap | None:
        """Run one flow, if the dispatcher starts one."""
        if not self.pending:
            return None
        started = self.dispatch.start_runs(self.mill.catalog.runs.list_runnable(), time.time())
        if not started:
            return None
        (started_run,) = started
        began, second = self.clock.now(), self.pending.pop(started_run.run.subject)
        self.mill.flows.execute(started_run.run)
        self.dispatch.finish_run(started_run, time.time())
        answers = tuple(b for b in self._list_written_blocks(started_run.run) if b.channel in ANSWERS)
        return Lap(rows, second, insert, self.clock.now() - began, self._read_clock(), answers)

    def _list_written_blocks(self, run: Run) -> Sequence[Block]:
        ended = self.mill.catalog.runs.read(run.id)
        if ended.state is not RunState.FINISHED:
            raise RunFailed(f"run {run.id} of {run.subject} is {ended.state}: {ended.error}")
        return self.mill.catalog.blocks.list_written(run.id)

    def _wait_for_work(self) -> None:
        """Wait for the end of the next second; with pending flows, at most `PAUSE`."""
        rest = self._get_second(self.inserted) + 1 - self._read_clock() if self.inserted < len(self.seconds) else PAUSE
        self.clock.sleep(max(0.0, min(rest, PAUSE) if self.pending else rest))
