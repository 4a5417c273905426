"""A warehouse in virtual time: batches arrive, the dispatcher is asked what to start, and runs take their time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush, heapreplace
from math import inf
from random import Random

from tidemill.scheduler.dispatcher import Dispatcher
from tidemill.scheduler.hierarchy import build_jobs, index_children
from tidemill.scheduler.job import Batch, Job, index_by_name
from tidemill.sim.staleness.workload import SimulationConfig, Workload

Feed = Iterator[Batch]
"""What arrives for a table, in order."""

Took = Callable[[Job, int, float], float]
"""How long a run takes that loads the first so many batches of a job and begins now."""


@dataclass(slots=True, eq=False)
class _SimulatedTable:
    """A job with what the simulation keeps of it."""

    number: int
    job: Job
    feed: Feed
    coming: Batch | None = None  # what arrives next
    parents: Sequence[Job] = ()
    children: Sequence[_SimulatedTable] = ()
    runs: int = 0


Event = tuple[float, int, _SimulatedTable, int, float]
"""When; a number that no other event of that instant has; whose; batches that end being loaded, none if one arrives;
and how long that took."""


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """What came of a simulation."""

    events: int
    elapsed: float
    staleness: float  # of all tables, weighted by priority, on average over time
    tables: Mapping[str, float]  # the staleness of each on average, not weighted
    runs: Mapping[str, int]
    busy: float  # the share of the tracks' time in which something ran


class Simulation:
    """A driver of the dispatcher whose clock is a list of events."""

    def __init__(self, jobs: Sequence[Job], dispatcher: Dispatcher, feeds: Mapping[str, Feed], took: Took) -> None:
        self._dispatcher, self._took = dispatcher, took
        self._tables = _build_tables(jobs, feeds)
        self._heap: list[Event] = []
        for table in self._tables.values():
            table.coming = next(table.feed, None)
            if table.coming is not None:
                heappush(self._heap, (table.coming[0], table.number, table, 0, 0.0))
        self._busy = 0.0
        self.now = 0.0

    def run(self, events: int | None = None, until: float = inf) -> int:
        """Until so many events have happened, until that moment, or until nothing happens any more.

        Simulations spend their time here, so it is one loop that calls little.
        """
        heap, dispatcher, tables, times = self._heap, self._dispatcher, self._tables, self._took
        dispatch, done, arrive, pass_on = (
            dispatcher.dispatch_jobs,
            dispatcher.mark_finished,
            self._handle_arrival,
            self._notify_child,
        )
        seen, limit, count = 0, inf if events is None else events, len(tables)
        while heap and seen < limit and heap[0][0] <= until:
            now = heap[0][0]
            while heap and heap[0][0] == now:
                _, _, table, grain, took = heap[0]
                if grain:
                    heappop(heap)
                    job = table.job
                    job.load_batches(grain, now)
                    done(job, now, grain, took, job.profile.selectivity)
                    for child in table.children:
                        pass_on(child, now)
                else:
                    arrive(table, now)
                seen += 1
            for job, _, grain in dispatch(now):
                took = times(job, grain, now)
                table = tables[job.name]
                table.runs += 1
                self._busy += took
                heappush(heap, (now + took, count + table.number, table, grain, took))
            self.now = now
        return seen

    def compute_staleness(self, at: float) -> dict[str, float]:
        """The integral of each table's staleness until a moment that has come, and after which nothing has happened."""
        return {name: table.job.compute_staleness(at) for name, table in self._tables.items()}

    def build_outcome(self, events: int, tracks: int) -> SimulationOutcome:
        now, tables = self.now, self._tables
        return SimulationOutcome(
            events,
            now,
            sum(table.job.compute_weighted_staleness(now) for table in tables.values()) / now,
            {name: table.job.compute_staleness(now) / now for name, table in tables.items()},
            {name: table.runs for name, table in tables.items()},
            self._busy / (now * tracks),
        )

    def _handle_arrival(self, table: _SimulatedTable, now: float) -> None:
        batch, job = table.coming, table.job
        table.coming = later = next(table.feed, None)
        if later is None:
            heappop(self._heap)
        else:
            heapreplace(self._heap, (later[0], table.number, table, 0, 0.0))
        if batch is not None:
            job.add_batch(batch)
            self._dispatcher.mark_ready(job, now)

    def _notify_child(self, child: _SimulatedTable, now: float) -> None:
        """A derived table can be brought up to where the least fresh of its parents is."""
        job = child.job
        edge = min(parent.fresh for parent in child.parents)
        if edge > (job.batches[-1][1] if job.batches else job.fresh):
            job.add_batch((now, edge))
            self._dispatcher.mark_ready(job, now)


def simulate_workload(workload: Workload, way: SimulationConfig, events: int, seed: int = 1) -> SimulationOutcome:
    """Tables whose batches come with their periods, from moments that are left to chance."""
    phases, noise = Random(seed), Random(seed + 1)
    jobs = build_jobs(workload.tables, way.inheritance)
    feeds = {}
    for job in jobs:
        if not job.profile.parents:
            first = phases.uniform(0.0, job.profile.period)
            job.fresh = first - job.profile.period
            feeds[job.name] = _generate_batches(first, job.profile.period)
    align_derived_tables(jobs)
    simulation = Simulation(jobs, way.build_dispatcher(jobs, workload.tracks), feeds, _build_run_times(workload, noise))
    return simulation.build_outcome(simulation.run(events), workload.tracks)


def simulate_uncontended(workload: Workload, events: int, seed: int = 1) -> SimulationOutcome:
    """The same if there were a track for everybody: as good as it gets."""
    return simulate_workload(
        replace(workload, tracks=len(workload.tables)), SimulationConfig(policy="first-come"), events, seed
    )


def _generate_batches(first: float, period: float) -> Feed:
    at = first
    while True:
        yield at, at
        at += period


def _build_run_times(workload: Workload, random: Random) -> Took:
    least, slowdown, chance = workload.noise, workload.slowdown, random.random

    def compute_steady_time(job: Job, grain: int, _: float) -> float:
        cost = job.profile.cost  # called for every run, so not by way of the methods
        return (least + chance()) * (cost.start + cost.rate * (job.batches[grain - 1][1] - job.fresh))

    if slowdown is None:
        return compute_steady_time
    return lambda job, grain, now: (
        slowdown.find_factor(now) / slowdown.mean_factor * compute_steady_time(job, grain, now)
    )


def _build_tables(jobs: Sequence[Job], feeds: Mapping[str, Feed]) -> dict[str, _SimulatedTable]:
    made = {job.name: _SimulatedTable(number, job, feeds.get(job.name, iter(()))) for number, job in enumerate(jobs)}
    below = index_children([job.profile for job in jobs])
    for name, table in made.items():
        table.parents = [made[p].job for p in table.job.profile.parents]
        table.children = [made[c] for c in below[name]]
    return made


def align_derived_tables(jobs: Sequence[Job]) -> None:
    """In the beginning derived tables are as fresh as their parents."""
    known = index_by_name(jobs)
    for job in jobs:
        if job.profile.parents:
            job.fresh = min(known[parent].fresh for parent in job.profile.parents)
