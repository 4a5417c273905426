"""A warehouse in virtual time: batches arrive, the dispatcher is asked what to start, and runs take their time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush, heapreplace
from math import inf
from random import Random

from tidemill.schedule.dispatcher import Dispatcher
from tidemill.schedule.hierarchy import children, jobs_of
from tidemill.schedule.job import Batch, Job, by_name
from tidemill.sim.staleness.workload import Way, Workload

Feed = Iterator[Batch]
"""What arrives for a table, in order."""

Took = Callable[[Job, int, float], float]
"""How long a run takes that loads the first so many batches of a job and begins now."""

Event = tuple[float, int, Job, int, float]
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
        self._jobs, self._dispatcher, self._took = jobs, dispatcher, took
        self._numbers = {job.name: number for number, job in enumerate(jobs)}
        self._feeds = [feeds.get(job.name, iter(())) for job in jobs]
        self._next: list[Batch | None] = [next(feed, None) for feed in self._feeds]
        self._heap: list[Event] = []
        for job, batch in zip(jobs, self._next, strict=True):
            if batch is not None:
                heappush(self._heap, (batch[0], self._numbers[job.name], job, 0, 0.0))
        self._parents, self._children = _family(jobs)
        self._runs = [0] * len(jobs)
        self._busy = 0.0
        self.now = 0.0

    def run(self, events: int | None = None) -> int:
        """Until so many events have happened, or until nothing happens any more."""
        heap, dispatch = self._heap, self._dispatcher.dispatch
        arrive, start, end = self._arrive, self._start, self._end
        seen, limit = 0, inf if events is None else events
        while heap and seen < limit:
            now = heap[0][0]
            while heap and heap[0][0] == now:
                _, number, job, grain, took = heap[0]
                if grain:
                    end(job, grain, now, took)
                else:
                    arrive(number, job, now)
                seen += 1
            for job, _, grain in dispatch(now):
                start(job, grain, now)
            self.now = now
        return seen

    def outcome(self, events: int, tracks: int) -> Outcome:
        now, jobs = self.now, self._jobs
        return Outcome(
            events,
            now,
            sum(job.weighted(now) for job in jobs) / now,
            {job.name: job.behind(now) / now for job in jobs},
            {job.name: runs for job, runs in zip(jobs, self._runs, strict=True)},
            self._busy / (now * tracks),
        )

    def _arrive(self, number: int, job: Job, now: float) -> None:
        batch, later = self._next[number], next(self._feeds[number], None)
        self._next[number] = later
        if later is None:
            heappop(self._heap)
        else:
            heapreplace(self._heap, (later[0], number, job, 0, 0.0))
        if batch is not None:
            job.arrive(batch)
            self._dispatcher.ready(job, now)

    def _start(self, job: Job, grain: int, now: float) -> None:
        took = self._took(job, grain, now)
        number = self._numbers[job.profile.name]
        self._busy += took
        self._runs[number] += 1
        heappush(self._heap, (now + took, len(self._jobs) + number, job, grain, took))

    def _end(self, job: Job, grain: int, now: float, took: float) -> None:
        heappop(self._heap)
        job.load(grain, now)
        self._dispatcher.done(job, now, grain, took, job.profile.selectivity)
        for child in self._children[job.profile.name]:
            self._pass_on(child, now)

    def _pass_on(self, child: Job, now: float) -> None:
        """A derived table can be brought up to where the least fresh of its parents is."""
        edge = min(parent.fresh for parent in self._parents[child.profile.name])
        if edge > (child.batches[-1][1] if child.batches else child.fresh):
            child.arrive((now, edge))
            self._dispatcher.ready(child, now)


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


def _family(jobs: Sequence[Job]) -> tuple[dict[str, list[Job]], dict[str, list[Job]]]:
    """The parents and the children of each."""
    known = by_name(jobs)
    below = children([job.profile for job in jobs])
    return (
        {job.name: [known[p] for p in job.profile.parents] for job in jobs},
        {job.name: [known[c] for c in below[job.name]] for job in jobs},
    )


def settle(jobs: Sequence[Job]) -> None:
    """In the beginning derived tables are as fresh as their parents."""
    parents, _ = _family(jobs)
    for job in jobs:
        if job.profile.parents:
            job.fresh = min(parent.fresh for parent in parents[job.name])
