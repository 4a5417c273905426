"""Weighted staleness of a live server under two policies on the same tracks, against what the simulator predicts.

The policies take turns in one session, each time with the same arrivals: one, then the other twice, then the first, so
that neither has the warmer machine. Staleness is what the paper means by it, and the simulator: how old the newest data
are that a table reflects. The simulator is given the arrivals of the phases, and the times that runs took in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.claims import Claim, Declaration
from benchmarks.mixed_load import Load, workflow
from benchmarks.refresh import project, served
from tidemill.app.settings import ServerSettings, Settings
from tidemill.app.wiring import Tidemill
from tidemill.model.run import RunKind
from tidemill.runtime.freshness.staleness import StalenessMeasure, compute_curves
from tidemill.runtime.inspect.replay_record import build_replay_records
from tidemill.scheduler.dispatcher import LIMITS
from tidemill.sim.staleness.replay import RecordedTable, replay_policies
from tidemill.sim.staleness.workload import SimulationConfig

PLACEMENT = "proportional"
FIRST, SECOND = "first-come", "max-benefit"
WAYS = {policy: SimulationConfig(policy, PLACEMENT, patience=LIMITS.patience) for policy in (FIRST, SECOND)}


@dataclass(frozen=True, slots=True)
class Margins:
    """How many times as stale tables are under first-come as under Max Benefit."""

    measured: float
    predicted: float


DECLARED: Declaration[Margins] = Declaration(
    {
        "tables": "small ones with priorities of 100 and 10, heavy ones with 1, two that are made of small ones",
        "arrivals": "the same in every phase, four times as many in its middle half",
        "dispatching": "first-come and Max Benefit in turns, on proportional tracks",
        "measure": "staleness weighted by priority, on average over the phases of each policy",
    },
    (
        Claim(
            "4.4",
            "a live server that heeds priorities keeps tables less stale",
            "first-come has more weighted staleness than Max Benefit",
            lambda margins: margins.measured > 1.0,
        ),
        Claim(
            "4.1",
            "the simulator predicts what happens on a live server",
            "the margin that it predicts for the same arrivals and run times is within a factor of two",
            lambda margins: 0.5 <= margins.measured / margins.predicted <= 2.0,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Phase:
    policy: str
    began: float
    ended: float
    staleness: float  # in sum by priority, on average over time
    busy: float  # the share of the tracks' time in which something ran
    runs: int


def measure(
    directory: Path, *, seconds: float, turns: int, tracks: int, heavy: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    settings = Settings(server=ServerSettings(tracks=tracks, placement=PLACEMENT, poll_interval=0.2))
    with project(directory, workflow(), settings) as mill:
        load = Load(mill, directory, heavy, tracks)
        tell("preparing")
        load.prepare()
        phases = []
        with served(mill):
            _phase(mill, load, FIRST, seconds / 2)  # so that servers know how often tables are due
            for policy in _in_turns(turns):
                phases.append(_phase(mill, load, policy, seconds))
                tell(f"{policy}: {phases[-1].staleness:.1f}, tracks busy for {phases[-1].busy:.0%}")
            load.settle()
        return _summary(phases, _predicted(mill, phases, load), load.period)


def _in_turns(turns: int) -> list[str]:
    """Each as often as the other, and on average at the same time."""
    return [policy for turn in range(turns) for policy in ((FIRST, SECOND) if turn % 2 == 0 else (SECOND, FIRST))]


def _phase(mill: Tidemill, load: Load, policy: str, seconds: float) -> Phase:
    mill.catalog.override_settings({"policy": policy, "placement": PLACEMENT})
    load.settle()
    began, ended = load.bring(seconds)
    staleness = _weighted(mill, began, ended)
    busy = _busy(mill, began, ended)
    return Phase(policy, began, ended, staleness, sum(busy) / (load.tracks * (ended - began)), len(busy))


def _busy(mill: Tidemill, began: float, ended: float) -> list[float]:
    """For how long each run of a phase ran in it."""
    runs = (r for r in mill.catalog.list_runs(limit=1000) if r.kind is RunKind.FLOW and r.started is not None)
    times = ((max(began, r.started or began), min(ended, r.finished or ended)) for r in runs)
    return [end - start for start, end in times if end > start]


def _weighted(mill: Tidemill, since: float, until: float) -> float:
    priorities = {name: f.priority for name, f in mill.catalog.read_flow_statistics().items()}
    drawn = compute_curves(mill.history(), StalenessMeasure.AGE, since, until)
    return sum(priorities.get(c.table, 0.0) * c.integral for c in drawn) / (until - since)


def _predicted(mill: Tidemill, phases: Sequence[Phase], load: Load) -> dict[str, float]:
    """Weighted staleness by policy, if the arrivals of every phase had been dispatched so."""
    known = build_replay_records(mill.catalog, phases[0].began - load.lead)
    replays = [
        replay
        for p in phases
        for replay in replay_policies(
            _within(known, p.began - load.lead, p.ended), load.tracks, WAYS, (p.began, p.ended)
        )
    ]
    return {policy: fmean(r.staleness for r in replays if r.name == policy) for policy in WAYS}


def _within(known: Mapping[str, RecordedTable], since: float, until: float) -> dict[str, RecordedTable]:
    return {name: replace(of, batches=[b for b in of.batches if since <= b[0] <= until]) for name, of in known.items()}


def _summary(phases: Sequence[Phase], predicted: Mapping[str, float], period: float) -> dict[str, Any]:
    found = {policy: fmean(p.staleness for p in phases if p.policy == policy) for policy in WAYS}
    margin, expected = found[FIRST] / found[SECOND], predicted[FIRST] / predicted[SECOND]
    judgement = DECLARED.judge({"live": Margins(margin, expected)})
    return {
        "points": [_point(phase) for phase in phases],
        "period": round(period, 2),
        "first_come": round(found[FIRST], 2),
        "max_benefit": round(found[SECOND], 2),
        "margin": round(margin, 3),
        "predicted": round(expected, 3),
        "predicted_first_come": round(predicted[FIRST], 2),
        "predicted_max_benefit": round(predicted[SECOND], 2),
        **judgement.to_json(),
    }


def _point(phase: Phase) -> dict[str, Any]:
    figures = {"weighted_staleness": round(phase.staleness, 2), "busy": round(phase.busy, 3), "runs": phase.runs}
    return {"policy": phase.policy, **figures}
