"""Linear Road as two flows on one track: the dispatcher says which of those that are behind goes first.

It is the dispatcher of servers, with its policies, over real runs. What it may choose between is small: tolls,
accidents and balances are one flow, what was spent on days past another. A run takes all rows that are there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.linear_road.live import Clock, Lap, Live, Tell, collected, too_late, written
from benchmarks.linear_road.rows import ANSWERS, HISTORY, INPUT, Columns, cut, stacked
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
"""Seconds after which a policy is asked again that starts nothing: some begin rounds."""


def play(directory: Path, rows: Columns, history: Columns, policy: str, clock: Clock, tell: Tell) -> Live:
    """Answer all rows under a policy; everything is under the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    roads = int(rows["xway"].max(initial=0)) + 1
    settings = Settings(maintenance=MaintenanceSettings(automatic=False))
    with Tidemill(directory, settings, Project((two_flows(roads).declared(),))) as mill:
        mill.apply()
        mill.insert("history", written(directory, history, HISTORY))
        for flow in FLOWS:
            mill.run(flow)  # whatever is only done once comes before the clock starts
        dispatch = RunDispatcher(mill.catalog, DispatchConfig(policy, "single", "none", tracks=1))
        return collected(mill, list(_Day(mill, dispatch, directory, list(cut(rows, 1)), clock).laps(tell)))


@dataclass(slots=True)
class _Day:
    """The seconds of a run: inserted when they are over, and answered when a flow has its turn."""

    mill: Tidemill
    dispatch: RunDispatcher
    directory: Path
    seconds: Sequence[Columns]
    clock: Clock
    done: int = 0  # seconds that were inserted
    asked: dict[str, int] = field(default_factory=dict)  # by flow that has not run since, the first second it missed
    began: float = 0.0

    def laps(self, tell: Tell) -> Iterator[Lap]:
        self.began = self.clock.now()
        while self.done < len(self.seconds) or self.asked:
            rows, insert = self._insert()
            lap = self._run(rows, insert)
            if lap is None:
                self._wait()
                continue
            yield lap
            if too_late(lap.emitted, lap.second):
                tell(f"given up at second {lap.second}: too far behind")
                return

    def _shown(self) -> float:
        return self._second(0) + self.clock.now() - self.began

    def _second(self, number: int) -> int:
        return int(self.seconds[number]["time"][0])

    def _insert(self) -> tuple[int, float]:
        """Insert all seconds that are over; how many rows they have, and how long it took."""
        now = self._shown()
        over = [s for s in self.seconds[self.done :] if int(s["time"][0]) + 1 <= now]
        if not over:
            return 0, 0.0
        began, rows = self.clock.now(), stacked(over)
        self.mill.insert("reports", written(self.directory, rows, INPUT))
        for flow in FLOWS:
            if flow not in self.asked:
                self.mill.catalog.request_run(RunKind.FLOW, flow)
                self.asked[flow] = self._second(self.done)
        self.done += len(over)
        return len(rows["time"]), self.clock.now() - began

    def _run(self, rows: int, insert: float) -> Lap | None:
        """The run of one flow, if the dispatcher starts one."""
        if not self.asked:
            return None
        started = self.dispatch.start_runs(self.mill.catalog.list_runnable_runs(), time.time())
        if not started:
            return None
        (one,) = started
        began, second = self.clock.now(), self.asked.pop(one.run.subject)
        self.mill.execute(one.run)
        self.dispatch.finish_run(one, time.time())
        told = tuple(b for b in self._written(one.run) if b.channel in ANSWERS)
        return Lap(rows, second, insert, self.clock.now() - began, self._shown(), told)

    def _written(self, run: Run) -> Sequence[Block]:
        ended = self.mill.catalog.read_run(run.id)
        if ended.state is not RunState.FINISHED:
            raise RunFailed(f"run {run.id} of {run.subject} is {ended.state}: {ended.error}")
        return self.mill.catalog.list_written_blocks(run.id)

    def _wait(self) -> None:
        """Until the next second is over; with something to do, until the policy may have changed its mind."""
        rest = self._second(self.done) + 1 - self._shown() if self.done < len(self.seconds) else PAUSE
        self.clock.sleep(max(0.0, min(rest, PAUSE) if self.asked else rest))
