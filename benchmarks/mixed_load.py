"""A mixed load for a live server: many small tables, a few heavy ones, a hierarchy, and a burst in the middle.

How much comes is measured by what this machine bears: before and after the burst so much that the tracks would be busy
for `CALM` of the time if no runs got into each other's way, and in the burst `BURST` times as much. Content does not
grow with what comes, so a run takes as long in the last phase as in the first.
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
"""Between which shares of a phase the burst lasts."""
LEAD = 1
"""So many periods of heavy tables come before a phase."""
SELDOM = 2
"""How many times as long the periods of heavy tables are."""
ROUNDS = 4
"""Runs of each table while the load is prepared; the last says how long one takes."""
FEW = 20
"""Rows that arrive at once."""


def workflow() -> tm.Workflow:
    made = tm.Workflow("mixed")
    for n in range(SMALL):
        made.input(f"news{n}", "id bigint, k bigint")
        query = f"SELECT k, count(*) AS n FROM news{n} GROUP BY k"
        made.sql(f"counts{n}", query, triggers=[tm.on(f"news{n}")], priority=USUAL if n % 2 else IMPORTANT)
    for n in range(HEAVY):
        made.input(f"logs{n}", "id bigint, k bigint", key="id")
        query = f"SELECT a.k, count(DISTINCT a.id * b.k) AS n FROM logs{n} a JOIN logs{n} b ON a.k = b.k GROUP BY a.k"
        made.sql(f"pairs{n}", query, refresh="batch", triggers=[tm.on(f"logs{n}")], priority=LITTLE)
    made.sql("both", "SELECT a.k, a.n + b.n AS n FROM counts0 a JOIN counts1 b USING (k)",
             triggers=[tm.on("counts0"), tm.on("counts1")], priority=USUAL)  # fmt: skip
    made.sql("total", "SELECT sum(n) AS n FROM both", triggers=[tm.on("both")], priority=IMPORTANT)
    return made


def inputs() -> list[str]:
    return [f"news{n}" for n in range(SMALL)] + [f"logs{n}" for n in range(HEAVY)]


@dataclass
class Load:
    """Brings rows to a project in which `workflow` is applied."""

    mill: Tidemill
    directory: Path
    heavy: int  # rows that heavy tables read
    tracks: int
    period: float = 0.0  # seconds between two arrivals on the input of a small table, but for the burst
    _next: dict[str, int] = field(default_factory=dict)

    def prepare(self) -> None:
        """Each table has content, and is known to take so long; the period follows."""
        for number in range(ROUNDS):
            for name in inputs():
                self.insert(name, self.heavy if name.startswith("logs") and not number else FEW)
            took = {flow: self._seconds(flow) for flow in self.mill.catalog.read_flow_statistics()}
        seldom = sum(seconds for flow, seconds in took.items() if flow.startswith("pairs"))
        often = sum(took.values()) - seldom
        self.period = (often + seldom / SELDOM) / (CALM * self.tracks)

    @property
    def lead(self) -> float:
        """Seconds before a phase in which data come already, so that every table is fresh when it begins."""
        return LEAD * SELDOM * self.period

    def arrivals(self, seconds: float) -> list[tuple[float, str]]:
        """What comes when, counted from the beginning of a phase; the same each time."""
        found = []
        for place, name in enumerate(inputs()):
            period = self.period * (SELDOM if name.startswith("logs") else 1)
            at = self.period * place / len(inputs()) - self.lead
            while at < seconds:
                found.append((at, name))
                at += period / (BURST if BEGINS <= at / seconds < ENDS else 1)
        return sorted(found)

    def bring(self, seconds: float) -> tuple[float, float]:
        """All arrivals of a phase in their time; when it began and ended."""
        began = time.time() + self.lead
        for at, name in self.arrivals(seconds):
            time.sleep(max(0.0, began + at - time.time()))
            self.insert(name, FEW)
        time.sleep(max(0.0, began + seconds - time.time()))
        return began, time.time()

    def insert(self, channel: str, rows: int) -> None:
        """New rows, or other versions of those that are there: heavy tables stay as large as they are."""
        first = self._next.get(channel, 0)
        self._next[channel] = first + rows
        size = self.heavy if channel.startswith("logs") else first + rows
        lines = (f"{n % size},{n % 50}\n" for n in range(first, first + rows))
        path = self.directory / "arriving.csv"
        path.write_text("id,k\n" + "".join(lines))
        self.mill.insert(channel, path)

    def settle(self) -> None:
        """Wait until nothing is due, for as long as servers need to heed a wish."""
        quiet = 0
        while quiet < 15:
            catalog = self.mill.catalog
            under_way = any(not run.finished for run in catalog.list_runs(limit=20))
            quiet = 0 if under_way or catalog.list_due_triggers() or catalog.list_runnable_runs() else quiet + 1
            time.sleep(0.2)

    def _seconds(self, flow: str) -> float:
        run, _ = self.mill.run(flow)
        return (run.finished or 0.0) - (run.started or 0.0)
