"""Max Benefit with look-ahead."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from tidemill.scheduler.job import Job
from tidemill.scheduler.policies.basic import MaxBenefit

FILLERS = 6
"""How many jobs may fill the time until a better one comes: all sets of them are tried."""

SEEN = 32
"""How many of the best ready jobs are looked at for that, and how many of those that come next."""


class _Filling(NamedTuple):
    """A set of ready jobs, run one after the other before one that is still to come."""

    first: Job
    time: float
    gain: float

    def with_(self, job: Job) -> _Filling:
        return _Filling(self.first, self.time + job.estimate, self.gain + job.weight * job.delta)


class LookAhead(MaxBenefit):
    """Max Benefit; but if a better job should come while the best one runs, rather what is done by then.

    Tracks never stand idle for a job that is only expected.
    """

    def __init__(self) -> None:
        super().__init__()
        self._coming: list[tuple[float, str, Job]] = []
        self._when: dict[str, float] = {}

    def setup(self, jobs: Sequence[Job]) -> None:
        self._when = {job.name: job.expected for job in jobs if job.name not in self._entry}
        self._coming = sorted((job.expected, job.name, job) for job in jobs if job.name in self._when)

    def ready(self, job: Job, now: float) -> None:
        self._forget(job)
        super().ready(job, now)

    def done(self, job: Job, now: float, grain: int, cost: float, selectivity: float) -> None:
        self._expect(job)

    def ranked(self, now: float) -> Iterable[Job]:
        if len(self._entries) < 2 or not self._coming:
            return super().ranked(now)
        best = self._entries[0][3]
        chosen = self._instead(best, now)
        if chosen is None:
            return super().ranked(now)
        return chain([chosen], (job for job in super().ranked(now) if job is not chosen))

    def _instead(self, best: Job, now: float) -> Job | None:
        """The job to begin with instead of the best."""
        bar, room = -self.key(best), best.estimate
        better = [job for job in self._between(now, now + room) if _promised(job) > bar]
        fillings = list(_fillings(self._fillers(room), room)) if better else []
        found: Job | None = None
        for coming in better:
            for filling in fillings:
                worth = _together(filling, coming)
                if worth > bar and filling.time >= coming.expected - now:
                    bar, found = worth, filling.first
        return found

    def _fillers(self, room: float) -> list[Job]:
        """The best of those that take less time than there is."""
        seen = (entry[3] for entry in islice(self._entries, 1, SEEN))
        return list(islice((job for job in seen if job.estimate < room), FILLERS))

    def _between(self, now: float, until: float) -> Iterator[Job]:
        first = bisect_right(self._coming, now, key=lambda c: c[0])
        last = bisect_right(self._coming, until, key=lambda c: c[0])
        return (job for _, _, job in self._coming[first : min(last, first + SEEN)])

    def _expect(self, job: Job) -> None:
        self._forget(job)
        self._when[job.name] = job.expected
        insort(self._coming, (job.expected, job.name, job))

    def _forget(self, job: Job) -> None:
        when = self._when.pop(job.name, None)
        if when is not None:
            del self._coming[bisect_left(self._coming, (when, job.name, job))]


def _promised(job: Job) -> float:
    """The benefit of a job that is still to come, with what usually comes."""
    return job.weight * job.profile.period / job.profile.usual


def _together(filling: _Filling, coming: Job) -> float:
    """The benefit of a set and of the job that comes after it, as one."""
    gain = filling.gain + coming.weight * coming.profile.period
    return gain / (filling.time + coming.profile.usual)


def _fillings(jobs: Sequence[Job], room: float) -> Iterator[_Filling]:
    """All sets that take less time than there is; the first of each is its best."""
    for i, job in enumerate(jobs):
        yield from _grown(_Filling(job, job.estimate, job.weight * job.delta), jobs[i + 1 :], room)


def _grown(filling: _Filling, others: Sequence[Job], room: float) -> Iterator[_Filling]:
    if filling.time >= room:
        return
    yield filling
    for i, job in enumerate(others):
        yield from _grown(filling.with_(job), others[i + 1 :], room)
