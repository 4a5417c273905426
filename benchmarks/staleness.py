"""Weighted staleness of a live server under two policies on the same tracks, against the simulator's prediction.

The policies alternate in one session with the same arrivals in each turn: one, then the other twice, then the first, so
that neither benefits from a warmer machine. Staleness is defined as in the paper and in the simulator: the age of the
newest data that a table reflects. The simulator gets the arrivals and the run times of the phases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.claims import Claim, Declaration
from benchmarks.figures.judging import CLEARLY
from benchmarks.mixed_load import Load, build_workflow
from benchmarks.refresh import open_project, run_server
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
CONFIGS = {policy: SimulationConfig(policy, PLACEMENT, patience=LIMITS.patience) for policy in (FIRST, SECOND)}


@dataclass(frozen=True, slots=True)
class Margins:
    """Weighted staleness under first-come as a multiple of that under Max Benefit."""

    measured: float
    predicted: float


DECLARED: Declaration[Margins] = Declaration(
    {
        "tables": "small ones with priorities of 100 and 10, heavy ones with 1, two that are derived from small ones",
        "arrivals": "the same in every phase, four times as many in its middle half",
        "dispatching": "first-come and Max Benefit in turns, on proportional tracks",
        "measure": "staleness weighted by priority, on average over the phases of each policy",
    },
    (
        Claim(
            "4.4",
            "on a live server, dispatching by priority makes tables less stale",
            f"Max Benefit has clearly less weighted staleness than first-come: by more than {CLEARLY:.0%}",
            lambda margins: 1 / margins.measured < 1 - CLEARLY,
        ),
        Claim(
            "4.1",
            "the simulator predicts the staleness on a live server",
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
    staleness: float  # sum weighted by priority, average over time
    busy: float  # the share of the tracks' time with active runs
    runs: int


def measure(
    directory: Path, *, seconds: float, turns: int, tracks: int, heavy: int, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    settings = Settings(server=ServerSettings(tracks=tracks, placement=PLACEMENT, poll_interval=0.2))
    with open_project(directory, build_workflow(), settings) as mill:
        load = Load(mill, directory, heavy, tracks)
        on_progress("preparing")
        load.prepare()
        phases = []
        with run_server(mill):
            _run_phase(mill, load, FIRST, seconds / 2)  # so that servers estimate how often tables are due
            for policy in _order_policies(turns):
                phases.append(_run_phase(mill, load, policy, seconds))
                on_progress(f"{policy}: {phases[-1].staleness:.1f}, tracks busy for {phases[-1].busy:.0%}")
            load.wait_until_idle()
        return _summarize(phases, _predict_staleness(mill, phases, load), load.period)


def _order_policies(turns: int) -> list[str]:
    """The policies in alternating order: equal numbers of turns, at the same mean time."""
    return [policy for turn in range(turns) for policy in ((FIRST, SECOND) if turn % 2 == 0 else (SECOND, FIRST))]


def _run_phase(mill: Tidemill, load: Load, policy: str, seconds: float) -> Phase:
    mill.catalog.servers.override_settings({"policy": policy, "placement": PLACEMENT})
    load.wait_until_idle()
    began, ended = load.insert_arrivals(seconds)
    staleness = _compute_weighted_staleness(mill, began, ended)
    busy = _list_busy_seconds(mill, began, ended)
    return Phase(policy, began, ended, staleness, sum(busy) / (load.tracks * (ended - began)), len(busy))


def _list_busy_seconds(mill: Tidemill, began: float, ended: float) -> list[float]:
    """The seconds of each run within a phase."""
    runs = (r for r in mill.catalog.runs.list(limit=1000) if r.kind is RunKind.FLOW and r.started is not None)
    times = ((max(began, r.started or began), min(ended, r.finished or ended)) for r in runs)
    return [end - start for start, end in times if end > start]


def _compute_weighted_staleness(mill: Tidemill, since: float, until: float) -> float:
    priorities = {name: f.priority for name, f in mill.catalog.flows.read_statistics().items()}
    curves = compute_curves(mill.history(), StalenessMeasure.AGE, since, until)
    return sum(priorities.get(c.table, 0.0) * c.integral for c in curves) / (until - since)


def _predict_staleness(mill: Tidemill, phases: Sequence[Phase], load: Load) -> dict[str, float]:
    """Simulated weighted staleness by policy for the arrivals of every phase."""
    records = build_replay_records(mill.catalog, phases[0].began - load.lead)
    replays = [
        replay
        for p in phases
        for replay in replay_policies(
            _select_batches(records, p.began - load.lead, p.ended), load.tracks, CONFIGS, (p.began, p.ended)
        )
    ]
    return {policy: fmean(r.staleness for r in replays if r.name == policy) for policy in CONFIGS}


def _select_batches(records: Mapping[str, RecordedTable], since: float, until: float) -> dict[str, RecordedTable]:
    return {
        name: replace(record, batches=[b for b in record.batches if since <= b[0] <= until])
        for name, record in records.items()
    }


def _summarize(phases: Sequence[Phase], predicted: Mapping[str, float], period: float) -> dict[str, Any]:
    measured = {policy: fmean(p.staleness for p in phases if p.policy == policy) for policy in CONFIGS}
    margin, expected = measured[FIRST] / measured[SECOND], predicted[FIRST] / predicted[SECOND]
    judgement = DECLARED.judge({"live": Margins(margin, expected)})
    return {
        "points": [_to_json(phase) for phase in phases],
        "period": round(period, 2),
        "first_come": round(measured[FIRST], 2),
        "max_benefit": round(measured[SECOND], 2),
        "margin": round(margin, 3),
        "predicted": round(expected, 3),
        "predicted_first_come": round(predicted[FIRST], 2),
        "predicted_max_benefit": round(predicted[SECOND], 2),
        **judgement.to_json(),
    }


def _to_json(phase: Phase) -> dict[str, Any]:
    figures = {"weighted_staleness": round(phase.staleness, 2), "busy": round(phase.busy, 3), "runs": phase.runs}
    return {"policy": phase.policy, **figures}
