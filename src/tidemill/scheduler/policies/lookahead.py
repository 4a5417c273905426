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


class _FillerSet(NamedTuple):
    """A set of ready jobs, run one after the other before one that is still to come."""

    first: Job
    time: float
    gain: float

    def add_job(self, job: Job) -> _FillerSet:
        return _FillerSet(self.first, self.time + job.estimated_cost, self.gain + job.weight * job.staleness_gain)


class LookAhead(MaxBenefit):
    """Max Benefit; but if a better job should come while the best one runs, rather what is done by then.

    Tracks never stand idle for a job that is only expected.
    """

    def __init__(self) -> None:
        super().__init__()
        self._coming: list[tuple[float, str, Job]] = []
        self._when: dict[str, float] = {}

    def set_jobs(self, jobs: Sequence[Job]) -> None:
        self._when = {job.name: job.expected for job in jobs if job.name not in self._entry}
        self._coming = sorted((job.expected, job.name, job) for job in jobs if job.name in self._when)

    def mark_ready(self, job: Job, now: float) -> None:
        self._drop_expected(job)
        super().mark_ready(job, now)

    def mark_finished(self, job: Job, now: float, grain: int, cost: float, selectivity: float) -> None:
        self._expect_job(job)

    def rank_jobs(self, now: float) -> Iterable[Job]:
        if len(self._entries) < 2 or not self._coming:
            return super().rank_jobs(now)
        best = self._entries[0][3]
        chosen = self._find_alternative(best, now)
        if chosen is None:
            return super().rank_jobs(now)
        return chain([chosen], (job for job in super().rank_jobs(now) if job is not chosen))

    def _find_alternative(self, best: Job, now: float) -> Job | None:
        """The job to begin with instead of the best."""
        bar, room = -self.compute_key(best), best.estimated_cost
        better = [job for job in self._list_coming(now, now + room) if _compute_expected_benefit(job) > bar]
        fillings = list(_list_fillings(self._list_fillers(room), room)) if better else []
        found: Job | None = None
        for coming in better:
            for filling in fillings:
                worth = _compute_joint_benefit(filling, coming)
                if worth > bar and filling.time >= coming.expected - now:
                    bar, found = worth, filling.first
        return found

    def _list_fillers(self, room: float) -> list[Job]:
        """The best of those that take less time than there is."""
        seen = (entry[3] for entry in islice(self._entries, 1, SEEN))
        return list(islice((job for job in seen if job.estimated_cost < room), FILLERS))

    def _list_coming(self, now: float, until: float) -> Iterator[Job]:
        first = bisect_right(self._coming, now, key=lambda c: c[0])
        last = bisect_right(self._coming, until, key=lambda c: c[0])
        return (job for _, _, job in self._coming[first : min(last, first + SEEN)])

    def _expect_job(self, job: Job) -> None:
        self._drop_expected(job)
        self._when[job.name] = job.expected
        insort(self._coming, (job.expected, job.name, job))

    def _drop_expected(self, job: Job) -> None:
        when = self._when.pop(job.name, None)
        if when is not None:
            del self._coming[bisect_left(self._coming, (when, job.name, job))]


def _compute_expected_benefit(job: Job) -> float:
    """The benefit of a job that is still to come, with what usually comes."""
    return job.weight * job.profile.period / job.profile.usual


def _compute_joint_benefit(filling: _FillerSet, coming: Job) -> float:
    """The benefit of a set and of the job that comes after it, as one."""
    gain = filling.gain + coming.weight * coming.profile.period
    return gain / (filling.time + coming.profile.usual)


def _list_fillings(jobs: Sequence[Job], room: float) -> Iterator[_FillerSet]:
    """All sets that take less time than there is; the first of each is its best."""
    for i, job in enumerate(jobs):
        yield from _grow_filling(
            _FillerSet(job, job.estimated_cost, job.weight * job.staleness_gain), jobs[i + 1 :], room
        )


def _grow_filling(filling: _FillerSet, others: Sequence[Job], room: float) -> Iterator[_FillerSet]:
    if filling.time >= room:
        return
    yield filling
    for i, job in enumerate(others):
        yield from _grow_filling(filling.add_job(job), others[i + 1 :], room)
