"""What other policies would have made of what really happened.

Arrivals are replayed as they were recorded. How long a run would have taken is not known, because under another policy
it loads something else: a cost is fitted to the recorded runs of each table, and the runs of a replay are off by the
same factors, in the same order, as the recorded ones were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from math import inf
from statistics import fmean, median

from tidemill.scheduler.hierarchy import build_jobs, derive_periods
from tidemill.scheduler.job import Batch, Job, JobProfile, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.sim.staleness.run import Simulation, Took, align_derived_tables
from tidemill.sim.staleness.workload import SimulationConfig

LEAST = 1e-6
"""A run takes some time, if only this."""

WAYS: Mapping[str, SimulationConfig] = {
    f"{policy}, {placement}": SimulationConfig(policy, placement)
    for policy in POLICIES
    for placement in ("single", "proportional")
}
"""What is worth comparing: every policy, on one queue and on proportional tracks."""


@dataclass(frozen=True, slots=True)
class RecordedTable:
    """What is known of a table: batches that arrived, none if it is derived; and for each run, the data time that it
    loaded and the time that it took."""

    batches: Sequence[Batch] = ()
    runs: Sequence[tuple[float, float]] = ()
    priority: float = 1.0
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """How stale the tables would have been on average over time; in sum by priority, and each by itself."""

    name: str
    staleness: float
    tables: Mapping[str, float] = field(hash=False)


def replay_policies(
    recorded: Mapping[str, RecordedTable],
    tracks: int,
    ways: Mapping[str, SimulationConfig] = WAYS,
    window: tuple[float, float] | None = None,
) -> list[ReplayResult]:
    """All ways over the same time, the best first: in a window, or from the first arrival until all is loaded."""
    profiles = derive_periods([_build_profile(name, of) for name, of in recorded.items()])
    begin = min(arrived for of in recorded.values() for arrived, _ in of.batches)
    since, until = window or (begin, inf)
    simulations = {name: _build_simulation(profiles, recorded, way, tracks, begin) for name, way in ways.items()}
    before = {name: _run_until(simulation, since) for name, simulation in simulations.items()}
    for simulation in simulations.values():
        simulation.run(until=until)
    end = until if window else max(simulation.now for simulation in simulations.values())
    own = {profile.name: profile.priority for profile in profiles}
    found = [
        _build_result(name, before[name], of.compute_staleness(end), end - since, own)
        for name, of in simulations.items()
    ]
    return sorted(found, key=lambda replay: (replay.staleness, replay.name))


def fit_cost(runs: Sequence[tuple[float, float]]) -> UpdateCost:
    """Least squares; neither term is negative."""
    if not runs:
        return UpdateCost(LEAST, 0.0)
    span, took = fmean(s for s, _ in runs), fmean(t for _, t in runs)
    spread = sum((s - span) ** 2 for s, _ in runs)
    rate = sum((s - span) * (t - took) for s, t in runs) / spread if spread else 0.0
    if rate <= 0:
        return UpdateCost(max(took, LEAST), 0.0)
    if took - rate * span >= LEAST:
        return UpdateCost(took - rate * span, rate)
    return UpdateCost(LEAST, sum(s * t for s, t in runs) / sum(s * s for s, _ in runs))


def _build_profile(name: str, of: RecordedTable) -> JobProfile:
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(of.batches)]
    period = median(gaps) if gaps else 1.0
    return JobProfile(name, max(period, LEAST), fit_cost(of.runs), of.priority, of.parents)


def _build_simulation(
    profiles: Sequence[JobProfile],
    recorded: Mapping[str, RecordedTable],
    way: SimulationConfig,
    tracks: int,
    begin: float,
) -> Simulation:
    jobs = build_jobs(profiles, way.inheritance)
    for job in jobs:
        job.since = begin
        if not job.profile.parents:
            job.fresh = recorded[job.name].batches[0][1] - job.profile.period
    align_derived_tables(jobs)
    feeds = {name: iter(of.batches) for name, of in recorded.items()}
    return Simulation(jobs, way.build_dispatcher(jobs, tracks), feeds, _build_run_times(jobs, recorded))


def _run_until(simulation: Simulation, at: float) -> dict[str, float]:
    simulation.run(until=at)
    return simulation.compute_staleness(at)


def _build_run_times(jobs: Sequence[Job], recorded: Mapping[str, RecordedTable]) -> Took:
    factors = {job.name: _cycle_factors(job.profile.cost, recorded[job.name].runs) for job in jobs}
    return lambda job, grain, _: next(factors[job.name]) * job.profile.cost(job.compute_span(grain))


def _cycle_factors(cost: UpdateCost, runs: Sequence[tuple[float, float]]) -> Iterator[float]:
    return cycle([max(took, LEAST) / cost(span) for span, took in runs] or [1.0])


def _build_result(
    name: str, before: Mapping[str, float], after: Mapping[str, float], lasted: float, own: Mapping[str, float]
) -> ReplayResult:
    tables = {table: (after[table] - before[table]) / lasted for table in after}
    return ReplayResult(name, sum(own[table] * stale for table, stale in tables.items()), tables)
