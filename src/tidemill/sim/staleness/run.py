"""Simulates a warehouse in virtual time: batches arrive, the dispatcher starts jobs, and runs take their time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush, heapreplace
from itertools import accumulate, repeat
from math import inf
from random import Random

from tidemill.scheduler.dispatcher import Dispatcher
from tidemill.scheduler.hierarchy import build_jobs, index_children
from tidemill.scheduler.job import Batch, Job, index_by_name
from tidemill.sim.staleness.workload import SimulationConfig, Workload

Feed = Iterator[Batch]
"""The batches of a table, in order of arrival."""

DurationFunction = Callable[[Job, int, float], float]
"""Returns the duration of a run that loads the first batches of a job and starts now."""


@dataclass(slots=True, eq=False)
class _SimulatedTable:
    """A job with the simulation's data on it."""

    number: int
    job: Job
    feed: Feed
    next_batch: Batch | None = None  # the next arrival
    parents: Sequence[Job] = ()
    children: Sequence[_SimulatedTable] = ()
    runs: int = 0


Event = tuple[float, int, _SimulatedTable, int, float]
"""Time; a number that is unique within that instant; table; number of batches that end being loaded, 0 for an arrival;
and the duration of the load."""


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    events: int
    elapsed: float
    staleness: float  # of all tables, weighted by priority, on average over time
    tables: Mapping[str, float]  # average staleness of each table, not weighted
    runs: Mapping[str, int]
    busy: float  # share of the tracks' time in which they were busy


class Simulation:
    """Drives the dispatcher by a queue of events."""

    def __init__(
        self, jobs: Sequence[Job], dispatcher: Dispatcher, feeds: Mapping[str, Feed], compute_duration: DurationFunction
    ) -> None:
        self._dispatcher, self._compute_duration = dispatcher, compute_duration
        self._tables = _build_tables(jobs, feeds)
        self._heap: list[Event] = []
        for table in self._tables.values():
            table.next_batch = next(table.feed, None)
            if table.next_batch is not None:
                heappush(self._heap, (table.next_batch[0], table.number, table, 0, 0.0))
        self._busy = 0.0
        self.now = 0.0

    def run(self, events: int | None = None, until: float = inf) -> int:
        """Run for so many events, until that time, or until none are left, in one loop with few calls, for speed."""
        heap, dispatcher, tables, compute_duration = self._heap, self._dispatcher, self._tables, self._compute_duration
        dispatch, done = dispatcher.dispatch_jobs, dispatcher.mark_finished
        arrive, notify = self._handle_arrival, self._notify_child
        handled, limit, count = 0, inf if events is None else events, len(tables)
        while heap and handled < limit and heap[0][0] <= until:
            now = heap[0][0]
            while heap and heap[0][0] == now:
                _, _, table, batches, seconds = heap[0]
                if batches:
                    heappop(heap)
                    job = table.job
                    job.load_batches(batches, now)
                    done(job, now, batches, seconds, job.profile.selectivity)
                    for child in table.children:
                        notify(child, now)
                else:
                    arrive(table, now)
                handled += 1
            for job, _, batches in dispatch(now):
                seconds = compute_duration(job, batches, now)
                table = tables[job.name]
                table.runs += 1
                self._busy += seconds
                heappush(heap, (now + seconds, count + table.number, table, batches, seconds))
            self.now = now
        return handled

    def compute_staleness(self, time: float) -> dict[str, float]:
        """Return the integral of each table's staleness until a time that no event has passed."""
        return {name: table.job.compute_staleness(time) for name, table in self._tables.items()}

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
        batch, job = table.next_batch, table.job
        table.next_batch = following = next(table.feed, None)
        if following is None:
            heappop(self._heap)
        else:
            heapreplace(self._heap, (following[0], table.number, table, 0, 0.0))
        if batch is not None:
            job.add_batch(batch)
            self._dispatcher.mark_ready(job, now)

    def _notify_child(self, child: _SimulatedTable, now: float) -> None:
        """Add a batch to a derived table up to the freshness of its least fresh parent."""
        job = child.job
        freshness = min(parent.fresh for parent in child.parents)
        if freshness > (job.batches[-1][1] if job.batches else job.fresh):
            job.add_batch((now, freshness))
            self._dispatcher.mark_ready(job, now)


def simulate_workload(workload: Workload, config: SimulationConfig, events: int, seed: int = 1) -> SimulationOutcome:
    """Simulate tables whose batches arrive with their periods, from random first arrivals."""
    phases, noise = Random(seed), Random(seed + 1)
    jobs = build_jobs(workload.tables, config.inheritance)
    feeds = {}
    for job in jobs:
        if not job.profile.parents:
            first = phases.uniform(0.0, job.profile.period)
            job.fresh = first - job.profile.period
            feeds[job.name] = ((time, time) for time in accumulate(repeat(job.profile.period), initial=first))
    align_derived_tables(jobs)
    dispatcher = config.build_dispatcher(jobs, workload.tracks)
    simulation = Simulation(jobs, dispatcher, feeds, _build_run_times(workload, noise))
    return simulation.build_outcome(simulation.run(events), workload.tracks)


def simulate_uncontended(workload: Workload, events: int, seed: int = 1) -> SimulationOutcome:
    """Simulate a track for every table: the lower bound of staleness."""
    uncontended = replace(workload, tracks=len(workload.tables))
    return simulate_workload(uncontended, SimulationConfig(policy="first-come"), events, seed)


def _build_run_times(workload: Workload, random: Random) -> DurationFunction:
    minimum, slowdown, chance = workload.noise, workload.slowdown, random.random

    def compute_steady_time(job: Job, batches: int, _: float) -> float:
        cost = job.profile.cost  # inlined, because it is called for every run
        return (minimum + chance()) * (cost.start + cost.rate * (job.batches[batches - 1][1] - job.fresh))

    if slowdown is None:
        return compute_steady_time
    return lambda job, batches, now: slowdown(now) * compute_steady_time(job, batches, now)


def _build_tables(jobs: Sequence[Job], feeds: Mapping[str, Feed]) -> dict[str, _SimulatedTable]:
    tables = {job.name: _SimulatedTable(number, job, feeds.get(job.name, iter(()))) for number, job in enumerate(jobs)}
    children = index_children([job.profile for job in jobs])
    for name, table in tables.items():
        table.parents = [tables[p].job for p in table.job.profile.parents]
        table.children = [tables[c] for c in children[name]]
    return tables


def align_derived_tables(jobs: Sequence[Job]) -> None:
    """Set the initial freshness of derived tables to that of their parents."""
    by_name = index_by_name(jobs)
    for job in jobs:
        if job.profile.parents:
            job.fresh = min(by_name[parent].fresh for parent in job.profile.parents)
