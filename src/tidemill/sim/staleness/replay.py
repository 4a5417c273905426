"""Replays a recorded workload under other policies.

Arrivals are replayed as recorded. The duration of a run is not known, because under another policy it loads other data:
a cost is fitted to the recorded runs of each table, and the runs of a replay deviate by the same factors, in the same
order, as the recorded ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from math import inf
from statistics import fmean, median

from tidemill.scheduler.hierarchy import build_jobs, derive_periods
from tidemill.scheduler.job import Batch, Job, JobProfile, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.sim.staleness.run import DurationFunction, Simulation, align_derived_tables
from tidemill.sim.staleness.workload import SimulationConfig

MIN_RUN_SECONDS = 1e-6
"""Minimum duration of a run."""

CONFIGS: Mapping[str, SimulationConfig] = {
    f"{policy}, {placement}": SimulationConfig(policy, placement)
    for policy in POLICIES
    for placement in ("single", "proportional")
}
"""Configurations to compare: every policy, on one queue and on proportional tracks."""


@dataclass(frozen=True, slots=True)
class RecordedTable:
    """The record of a table: its batches, none if it is derived; and for each run, its data time and its duration."""

    batches: Sequence[Batch] = ()
    runs: Sequence[tuple[float, float]] = ()
    priority: float = 1.0
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The staleness of the tables on average over time; the sum weighted by priority, and each table separately."""

    name: str
    staleness: float
    tables: Mapping[str, float] = field(hash=False)


def replay_policies(
    recorded: Mapping[str, RecordedTable],
    tracks: int,
    configs: Mapping[str, SimulationConfig] = CONFIGS,
    window: tuple[float, float] | None = None,
) -> list[ReplayResult]:
    """Replay all configurations, the best first: in a time window, or from the first arrival to the last load."""
    profiles = derive_periods([_build_profile(name, record) for name, record in recorded.items()])
    begin = min(arrived for record in recorded.values() for arrived, _ in record.batches)
    since, until = window or (begin, inf)
    simulations: dict[str, Simulation] = {}
    before: dict[str, dict[str, float]] = {}
    for name, config in configs.items():
        simulation = simulations[name] = _build_simulation(profiles, recorded, config, tracks, begin)
        simulation.run(until=since)
        before[name] = simulation.compute_staleness(since)
        simulation.run(until=until)
    end = until if window else max(simulation.now for simulation in simulations.values())
    priorities = {profile.name: profile.priority for profile in profiles}
    results = []
    for name, simulation in simulations.items():
        after = simulation.compute_staleness(end)
        tables = {table: (after[table] - before[name][table]) / (end - since) for table in after}
        weighted = sum(priorities[table] * staleness for table, staleness in tables.items())
        results.append(ReplayResult(name, weighted, tables))
    return sorted(results, key=lambda replay: (replay.staleness, replay.name))


def fit_cost(runs: Sequence[tuple[float, float]]) -> UpdateCost:
    """Fit a cost by least squares; neither term is negative."""
    if not runs:
        return UpdateCost(MIN_RUN_SECONDS, 0.0)
    mean_span, mean_seconds = fmean(s for s, _ in runs), fmean(t for _, t in runs)
    spread = sum((s - mean_span) ** 2 for s, _ in runs)
    rate = sum((s - mean_span) * (t - mean_seconds) for s, t in runs) / spread if spread else 0.0
    if rate <= 0:
        return UpdateCost(max(mean_seconds, MIN_RUN_SECONDS), 0.0)
    if mean_seconds - rate * mean_span >= MIN_RUN_SECONDS:
        return UpdateCost(mean_seconds - rate * mean_span, rate)
    return UpdateCost(MIN_RUN_SECONDS, sum(s * t for s, t in runs) / sum(s * s for s, _ in runs))


def _build_profile(name: str, record: RecordedTable) -> JobProfile:
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(record.batches)]
    period = median(gaps) if gaps else 1.0
    return JobProfile(name, max(period, MIN_RUN_SECONDS), fit_cost(record.runs), record.priority, record.parents)


def _build_simulation(
    profiles: Sequence[JobProfile],
    recorded: Mapping[str, RecordedTable],
    config: SimulationConfig,
    tracks: int,
    begin: float,
) -> Simulation:
    jobs = build_jobs(profiles, config.inheritance)
    for job in jobs:
        job.since = begin
        if not job.profile.parents:
            job.fresh = recorded[job.name].batches[0][1] - job.profile.period
    align_derived_tables(jobs)
    feeds = {name: iter(record.batches) for name, record in recorded.items()}
    return Simulation(jobs, config.build_dispatcher(jobs, tracks), feeds, _build_run_times(jobs, recorded))


def _build_run_times(jobs: Sequence[Job], recorded: Mapping[str, RecordedTable]) -> DurationFunction:
    factors = {}
    for job in jobs:
        ratios = [max(s, MIN_RUN_SECONDS) / job.profile.cost(span) for span, s in recorded[job.name].runs]
        factors[job.name] = cycle(ratios or [1.0])
    return lambda job, batches, _: next(factors[job.name]) * job.profile.cost(job.compute_span(batches))
