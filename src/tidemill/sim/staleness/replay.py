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

from tidemill.scheduler.hierarchy import jobs_of, with_periods
from tidemill.scheduler.job import Batch, Cost, Job, Profile
from tidemill.scheduler.policies import POLICIES
from tidemill.sim.staleness.run import Simulation, Took, settle
from tidemill.sim.staleness.workload import Way

LEAST = 1e-6
"""A run takes some time, if only this."""

WAYS: Mapping[str, Way] = {
    f"{policy}, {placement}": Way(policy, placement) for policy in POLICIES for placement in ("single", "proportional")
}
"""What is worth comparing: every policy, on one queue and on proportional tracks."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is known of a table: batches that arrived, none if it is derived; and for each run, the data time that it
    loaded and the time that it took."""

    batches: Sequence[Batch] = ()
    runs: Sequence[tuple[float, float]] = ()
    priority: float = 1.0
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Replay:
    """How stale the tables would have been on average over time; in sum by priority, and each by itself."""

    name: str
    staleness: float
    tables: Mapping[str, float] = field(hash=False)


def replayed(
    recorded: Mapping[str, Recorded],
    tracks: int,
    ways: Mapping[str, Way] = WAYS,
    window: tuple[float, float] | None = None,
) -> list[Replay]:
    """All ways over the same time, the best first: in a window, or from the first arrival until all is loaded."""
    profiles = with_periods([_profile(name, of) for name, of in recorded.items()])
    begin = min(arrived for of in recorded.values() for arrived, _ in of.batches)
    since, until = window or (begin, inf)
    simulations = {name: _simulation(profiles, recorded, way, tracks, begin) for name, way in ways.items()}
    before = {name: _behind(simulation, since) for name, simulation in simulations.items()}
    for simulation in simulations.values():
        simulation.run(until=until)
    end = until if window else max(simulation.now for simulation in simulations.values())
    own = {profile.name: profile.priority for profile in profiles}
    found = [_replay(name, before[name], of.behind(end), end - since, own) for name, of in simulations.items()]
    return sorted(found, key=lambda replay: (replay.staleness, replay.name))


def fitted(runs: Sequence[tuple[float, float]]) -> Cost:
    """Least squares; neither term is negative."""
    if not runs:
        return Cost(LEAST, 0.0)
    span, took = fmean(s for s, _ in runs), fmean(t for _, t in runs)
    spread = sum((s - span) ** 2 for s, _ in runs)
    rate = sum((s - span) * (t - took) for s, t in runs) / spread if spread else 0.0
    if rate <= 0:
        return Cost(max(took, LEAST), 0.0)
    if took - rate * span >= LEAST:
        return Cost(took - rate * span, rate)
    return Cost(LEAST, sum(s * t for s, t in runs) / sum(s * s for s, _ in runs))


def _profile(name: str, of: Recorded) -> Profile:
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(of.batches)]
    period = median(gaps) if gaps else 1.0
    return Profile(name, max(period, LEAST), fitted(of.runs), of.priority, of.parents)


def _simulation(
    profiles: Sequence[Profile], recorded: Mapping[str, Recorded], way: Way, tracks: int, begin: float
) -> Simulation:
    jobs = jobs_of(profiles, way.inheritance)
    for job in jobs:
        job.since = begin
        if not job.profile.parents:
            job.fresh = recorded[job.name].batches[0][1] - job.profile.period
    settle(jobs)
    feeds = {name: iter(of.batches) for name, of in recorded.items()}
    return Simulation(jobs, way.dispatcher(jobs, tracks), feeds, _times(jobs, recorded))


def _behind(simulation: Simulation, at: float) -> dict[str, float]:
    simulation.run(until=at)
    return simulation.behind(at)


def _times(jobs: Sequence[Job], recorded: Mapping[str, Recorded]) -> Took:
    factors = {job.name: _factors(job.profile.cost, recorded[job.name].runs) for job in jobs}
    return lambda job, grain, _: next(factors[job.name]) * job.profile.cost(job.span(grain))


def _factors(cost: Cost, runs: Sequence[tuple[float, float]]) -> Iterator[float]:
    return cycle([max(took, LEAST) / cost(span) for span, took in runs] or [1.0])


def _replay(
    name: str, before: Mapping[str, float], after: Mapping[str, float], lasted: float, own: Mapping[str, float]
) -> Replay:
    tables = {table: (after[table] - before[table]) / lasted for table in after}
    return Replay(name, sum(own[table] * stale for table, stale in tables.items()), tables)
