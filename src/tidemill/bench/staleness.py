"""Weighted staleness of a live server under two policies on the same tracks, against what the simulator predicts.

Many small tables that matter, a few slow ones that matter less, tables made of tables, and a burst in the middle: more
is due than can run at once, so the order decides. The two policies take turns in one session.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tidemill as tm
from tidemill.app import Tidemill
from tidemill.bench.refresh import project, served
from tidemill.runtime.recorded import recorded
from tidemill.runtime.staleness import Curve, Measure, curves
from tidemill.settings import ServerSettings, Settings
from tidemill.sim.staleness.replay import replayed
from tidemill.sim.staleness.workload import Way

WAYS = {"first-come": "first-come", "max-benefit": "max-benefit"}
PLACEMENT = "proportional"
SMALL, HEAVY = 8, 2
_IMPORTANT, _USUAL = 10.0, 1.0
_PERIOD, _SELDOM = 2.5, 7.0  # seconds between two arrivals on the input of a small table, and of a heavy one
_BURST = 4  # arrivals at once, in the middle


def workflow() -> tm.Workflow:
    made = tm.Workflow("mixed")
    for n in range(SMALL):
        made.input(f"news{n}", "id bigint, k bigint")
        query = f"SELECT k, count(*) AS n FROM news{n} GROUP BY k"
        made.sql(f"counts{n}", query, triggers=[tm.on(f"news{n}")], priority=_IMPORTANT)
    for n in range(HEAVY):
        made.input(f"logs{n}", "id bigint, k bigint")
        query = f"SELECT a.k, count(DISTINCT a.id * b.k) AS n FROM logs{n} a JOIN logs{n} b ON a.k = b.k GROUP BY a.k"
        made.sql(f"pairs{n}", query, refresh="batch", triggers=[tm.on(f"logs{n}")], priority=_USUAL)
    made.sql("together", "SELECT a.k, a.n + b.n AS n FROM counts0 a JOIN counts1 b USING (k)",
             triggers=[tm.on("counts0"), tm.on("counts1")], priority=_IMPORTANT)  # fmt: skip
    return made


@dataclass(frozen=True, slots=True)
class Phase:
    way: str
    staleness: float  # in sum by priority, on average over time
    began: float


def measure(
    directory: Path, *, seconds: float, turns: int, tracks: int, heavy: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    settings = Settings(server=ServerSettings(tracks=tracks, placement=PLACEMENT, tick=0.2))
    with project(directory, workflow(), settings) as mill:
        load = _Load(mill, directory, heavy)
        tell("preparing")
        load.prepare()
        phases = []
        with served(mill):
            for way in [w for _ in range(turns) for w in WAYS]:
                phases.append(load.phase(way, seconds))
                tell(f"{way}: {phases[-1].staleness:.1f}")
        return _summary(mill, phases, tracks)


class _Load:
    """Arrivals in their rhythm."""

    def __init__(self, mill: Tidemill, directory: Path, heavy: int) -> None:
        self._mill, self._directory, self._heavy, self._next = mill, directory, heavy, 0

    def prepare(self) -> None:
        """So that each table has its first content, and costs are known."""
        for _ in range(4):
            for name in self._inputs():
                self._insert(name, self._heavy if name.startswith("logs") else 20)
            for flow in self._mill.catalog.facts():
                self._mill.run(flow.flow)

    def phase(self, way: str, seconds: float) -> Phase:
        self._mill.catalog.wish({"policy": way, "placement": PLACEMENT})
        self._settle()
        began = time.time()
        due = {name: began + _PERIOD * i / SMALL for i, name in enumerate(self._inputs())}
        burst = began + seconds / 2
        while (now := time.time()) < began + seconds:
            if now >= burst:
                burst = float("inf")
                for name in self._inputs() * _BURST:
                    self._insert(name, 20)
            for name in (n for n, at in due.items() if at <= now):
                due[name] += _SELDOM if name.startswith("logs") else _PERIOD
                self._insert(name, 20)
            time.sleep(0.02)
        staleness = self._weighted(began, time.time())
        self._settle()
        return Phase(way, staleness, began)

    def _insert(self, channel: str, rows: int) -> None:
        path = self._directory / "arriving.csv"
        numbers = range(self._next, self._next + rows)
        self._next += rows
        path.write_text("id,k\n" + "".join(f"{n},{n % 50}\n" for n in numbers))
        self._mill.insert(channel, path)

    def _inputs(self) -> list[str]:
        return [f"news{n}" for n in range(SMALL)] + [f"logs{n}" for n in range(HEAVY)]

    def _settle(self) -> None:
        """Wait until nothing is due: servers heed a wish within seconds."""
        quiet = 0
        while quiet < 15:
            busy = self._mill.catalog.due_triggers() or self._mill.catalog.runnable() or self._busy()
            quiet = 0 if busy else quiet + 1
            time.sleep(0.2)

    def _busy(self) -> bool:
        return any(not r.finished for r in self._mill.catalog.runs(limit=20))

    def _weighted(self, since: float, until: float) -> float:
        priorities = {f.flow: f.priority for f in self._mill.catalog.facts()}
        drawn = curves(self._mill.history(), Measure.STALENESS, since, until)
        return sum(priorities.get(c.table, 0.0) * _area(c) for c in drawn) / (until - since)


def _area(curve: Curve) -> float:
    pairs = zip(curve.points, curve.points[1:], strict=False)
    return sum((t2 - t1) * (v1 + v2) / 2 for (t1, v1), (t2, v2) in pairs)


def _summary(mill: Tidemill, phases: list[Phase], tracks: int) -> dict[str, Any]:
    means = {way: _mean([p.staleness for p in phases if p.way == way]) for way in WAYS}
    ways = {way: Way(policy, PLACEMENT) for way, policy in WAYS.items()}
    found = {r.name: r.staleness for r in replayed(recorded(mill.catalog, phases[0].began), tracks, ways)}
    margin = means["first-come"] / means["max-benefit"]
    predicted = found["first-come"] / found["max-benefit"]
    return {
        "points": [{"policy": p.way, "weighted_staleness": round(p.staleness, 2)} for p in phases],
        "first_come": round(means["first-come"], 2),
        "max_benefit": round(means["max-benefit"], 2),
        "margin": round(margin, 3),
        "predicted": round(predicted, 3),
        "holds": margin > 1.0 and 0.5 <= margin / predicted <= 2.0,
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
