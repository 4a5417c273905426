"""A warehouse in virtual time: batches arrive, the dispatcher is asked what to start, and runs take their time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush, heapreplace
from math import inf
from random import Random

from tidemill.scheduler.dispatcher import Dispatcher
from tidemill.scheduler.hierarchy import children, jobs_of
from tidemill.scheduler.job import Batch, Job, by_name
from tidemill.sim.staleness.workload import Way, Workload

Feed = Iterator[Batch]
"""What arrives for a table, in order."""

Took = Callable[[Job, int, float], float]
"""How long a run takes that loads the first so many batches of a job and begins now."""


@dataclass(slots=True, eq=False)
class _Table:
    """A job with what the simulation keeps of it."""

    number: int
    job: Job
    feed: Feed
    coming: Batch | None = None  # what arrives next
    parents: Sequence[Job] = ()
    children: Sequence[_Table] = ()
    runs: int = 0


Event = tuple[float, int, _Table, int, float]
"""When; a number that no other event of that instant has; whose; batches that end being loaded, none if one arrives;
and how long that took."""


@dataclass(frozen=True, slots=True)
class Outcome:
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
        self._tables = _tables(jobs, feeds)
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
        dispatch, done, arrive, pass_on = dispatcher.dispatch, dispatcher.done, self._arrive, self._pass_on
        seen, limit, count = 0, inf if events is None else events, len(tables)
        while heap and seen < limit and heap[0][0] <= until:
            now = heap[0][0]
            while heap and heap[0][0] == now:
                _, _, table, grain, took = heap[0]
                if grain:
                    heappop(heap)
                    job = table.job
                    job.load(grain, now)
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

    def behind(self, at: float) -> dict[str, float]:
        """The integral of each table's staleness until a moment that has come, and after which nothing has happened."""
        return {name: table.job.behind(at) for name, table in self._tables.items()}

    def outcome(self, events: int, tracks: int) -> Outcome:
        now, tables = self.now, self._tables
        return Outcome(
            events,
            now,
            sum(table.job.weighted(now) for table in tables.values()) / now,
            {name: table.job.behind(now) / now for name, table in tables.items()},
            {name: table.runs for name, table in tables.items()},
            self._busy / (now * tracks),
        )

    def _arrive(self, table: _Table, now: float) -> None:
        batch, job = table.coming, table.job
        table.coming = later = next(table.feed, None)
        if later is None:
            heappop(self._heap)
        else:
            heapreplace(self._heap, (later[0], table.number, table, 0, 0.0))
        if batch is not None:
            job.arrive(batch)
            self._dispatcher.ready(job, now)

    def _pass_on(self, child: _Table, now: float) -> None:
        """A derived table can be brought up to where the least fresh of its parents is."""
        job = child.job
        edge = min(parent.fresh for parent in child.parents)
        if edge > (job.batches[-1][1] if job.batches else job.fresh):
            job.arrive((now, edge))
            self._dispatcher.ready(job, now)


def simulated(workload: Workload, way: Way, events: int, seed: int = 1) -> Outcome:
    """Tables whose batches come with their periods, from moments that are left to chance."""
    phases, noise = Random(seed), Random(seed + 1)
    jobs = jobs_of(workload.tables, way.inheritance)
    feeds = {}
    for job in jobs:
        if not job.profile.parents:
            first = phases.uniform(0.0, job.profile.period)
            job.fresh = first - job.profile.period
            feeds[job.name] = _periodic(first, job.profile.period)
    settle(jobs)
    simulation = Simulation(jobs, way.dispatcher(jobs, workload.tracks), feeds, _times(workload, noise))
    return simulation.outcome(simulation.run(events), workload.tracks)


def uncontended(workload: Workload, events: int, seed: int = 1) -> Outcome:
    """The same if there were a track for everybody: as good as it gets."""
    return simulated(replace(workload, tracks=len(workload.tables)), Way(policy="first-come"), events, seed)


def _periodic(first: float, period: float) -> Feed:
    at = first
    while True:
        yield at, at
        at += period


def _times(workload: Workload, random: Random) -> Took:
    least, slowdown, chance = workload.noise, workload.slowdown, random.random

    def steady(job: Job, grain: int, _: float) -> float:
        cost = job.profile.cost  # called for every run, so not by way of the methods
        return (least + chance()) * (cost.start + cost.rate * (job.batches[grain - 1][1] - job.fresh))

    if slowdown is None:
        return steady
    return lambda job, grain, now: slowdown.at(now) / slowdown.mean * steady(job, grain, now)


def _tables(jobs: Sequence[Job], feeds: Mapping[str, Feed]) -> dict[str, _Table]:
    made = {job.name: _Table(number, job, feeds.get(job.name, iter(()))) for number, job in enumerate(jobs)}
    below = children([job.profile for job in jobs])
    for name, table in made.items():
        table.parents = [made[p].job for p in table.job.profile.parents]
        table.children = [made[c] for c in below[name]]
    return made


def settle(jobs: Sequence[Job]) -> None:
    """In the beginning derived tables are as fresh as their parents."""
    known = by_name(jobs)
    for job in jobs:
        if job.profile.parents:
            job.fresh = min(known[parent].fresh for parent in job.profile.parents)
