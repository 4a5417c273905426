"""A mixed load for a live server: many small tables, a few heavy ones, a hierarchy, and a burst in the middle.

The rate of arrivals depends on this machine: before and after the burst the tracks are busy for `CALM` of the time if
runs do not slow each other down, and in the burst the rate is `BURST` times as high. Content does not grow with
arrivals, so a run takes as long in the last phase as in the first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import tidemill as tm
from tidemill.app.wiring import Tidemill

SMALL, HEAVY = 8, 3
IMPORTANT, USUAL, LITTLE = 100.0, 10.0, 1.0
"""Priorities: those of the paper's figure 8."""
CALM, BURST = 0.8, 4.0
BEGINS, ENDS = 0.25, 0.75
"""Begin and end of the burst, as shares of a phase."""
LEAD = 1
"""Periods of heavy tables before a phase."""
SELDOM = 2
"""Period of heavy tables, in periods of small ones."""
ROUNDS = 4
"""Runs of each table while the load is prepared; the last one is timed."""
FEW = 20
"""Rows of one arrival."""


def build_workflow() -> tm.Workflow:
    spec = tm.Workflow("mixed")
    for n in range(SMALL):
        spec.input(f"news{n}", "id bigint, k bigint")
        query = f"SELECT k, count(*) AS n FROM news{n} GROUP BY k"
        spec.sql(f"counts{n}", query, triggers=[tm.on(f"news{n}")], priority=USUAL if n % 2 else IMPORTANT)
    for n in range(HEAVY):
        spec.input(f"logs{n}", "id bigint, k bigint", key="id")
        query = f"SELECT a.k, count(DISTINCT a.id * b.k) AS n FROM logs{n} a JOIN logs{n} b ON a.k = b.k GROUP BY a.k"
        spec.sql(f"pairs{n}", query, refresh="batch", triggers=[tm.on(f"logs{n}")], priority=LITTLE)
    spec.sql("both", "SELECT a.k, a.n + b.n AS n FROM counts0 a JOIN counts1 b USING (k)",
             triggers=[tm.on("counts0"), tm.on("counts1")], priority=USUAL)  # fmt: skip
    spec.sql("total", "SELECT sum(n) AS n FROM both", triggers=[tm.on("both")], priority=IMPORTANT)
    return spec


def list_inputs() -> list[str]:
    return [f"news{n}" for n in range(SMALL)] + [f"logs{n}" for n in range(HEAVY)]


@dataclass
class Load:
    """Inserts rows into a project in which `workflow` is applied."""

    mill: Tidemill
    directory: Path
    heavy: int  # rows that heavy tables read
    tracks: int
    period: float = 0.0  # seconds between two arrivals on the input of a small table, except in the burst
    _next: dict[str, int] = field(default_factory=dict)

    def prepare(self) -> None:
        """Fill all tables, time their runs, and compute the period."""
        for number in range(ROUNDS):
            for name in list_inputs():
                self.insert(name, self.heavy if name.startswith("logs") and not number else FEW)
            seconds_by_flow = {flow: self._time_run(flow) for flow in self.mill.catalog.flows.read_statistics()}
        heavy_seconds = sum(seconds for flow, seconds in seconds_by_flow.items() if flow.startswith("pairs"))
        small_seconds = sum(seconds_by_flow.values()) - heavy_seconds
        self.period = (small_seconds + heavy_seconds / SELDOM) / (CALM * self.tracks)

    @property
    def lead(self) -> float:
        """Seconds of arrivals before a phase, so that every table is fresh when the phase begins."""
        return LEAD * SELDOM * self.period

    def list_arrivals(self, seconds: float) -> list[tuple[float, str]]:
        """Times and inputs of all arrivals, relative to the beginning of a phase; the same for every phase."""
        arrivals = []
        for position, name in enumerate(list_inputs()):
            period = self.period * (SELDOM if name.startswith("logs") else 1)
            time_due = self.period * position / len(list_inputs()) - self.lead
            while time_due < seconds:
                arrivals.append((time_due, name))
                time_due += period / (BURST if BEGINS <= time_due / seconds < ENDS else 1)
        return sorted(arrivals)

    def insert_arrivals(self, seconds: float) -> tuple[float, float]:
        """Insert the arrivals of a phase at their times; returns its begin and end."""
        began = time.time() + self.lead
        for due, name in self.list_arrivals(seconds):
            time.sleep(max(0.0, began + due - time.time()))
            self.insert(name, FEW)
        time.sleep(max(0.0, began + seconds - time.time()))
        return began, time.time()

    def insert(self, channel: str, rows: int) -> None:
        """Insert new rows, or for heavy tables, whose size is constant, new versions of existing rows."""
        first = self._next.get(channel, 0)
        self._next[channel] = first + rows
        size = self.heavy if channel.startswith("logs") else first + rows
        lines = (f"{n % size},{n % 50}\n" for n in range(first, first + rows))
        path = self.directory / "arriving.csv"
        path.write_text("id,k\n" + "".join(lines))
        self.mill.insert(channel, path)

    def wait_until_idle(self) -> None:
        """Wait until nothing is due for three seconds, in which servers apply a setting override."""
        idle_polls = 0
        while idle_polls < 15:
            catalog = self.mill.catalog
            is_running = any(not run.finished for run in catalog.runs.list(limit=20))
            idle_polls = (
                0 if is_running or catalog.triggers.list_due() or catalog.runs.list_runnable() else idle_polls + 1
            )
            time.sleep(0.2)

    def _time_run(self, flow: str) -> float:
        run, _ = self.mill.run(flow)
        return (run.finished or 0.0) - (run.started or 0.0)
