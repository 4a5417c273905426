"""Max Benefit with look-ahead."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from tidemill.scheduler.job import Job
from tidemill.scheduler.policies.basic import MaxBenefit

MAX_FILLERS = 6
"""Maximum number of jobs that fill the time until a better one arrives: all subsets are tried."""

CONSIDERED_JOBS = 32
"""Number of the best ready jobs that are considered as fillers, and of the expected jobs."""


class _FillerSet(NamedTuple):
    """A set of ready jobs, run one after the other before a job that is still expected."""

    first: Job
    time: float
    gain: float

    def add_job(self, job: Job) -> _FillerSet:
        return _FillerSet(self.first, self.time + job.estimated_cost, self.gain + job.weight * job.staleness_gain)


class LookAhead(MaxBenefit):
    """Max Benefit; but if a better job is expected while the best one runs, it prefers jobs that are finished by then.

    Tracks are never idle for a job that is only expected.
    """

    def __init__(self) -> None:
        super().__init__()
        self._expected: list[tuple[float, str, Job]] = []
        self._expected_at: dict[str, float] = {}

    def set_jobs(self, jobs: Sequence[Job]) -> None:
        self._expected_at = {job.name: job.expected for job in jobs if job.name not in self._entry}
        self._expected = sorted((job.expected, job.name, job) for job in jobs if job.name in self._expected_at)

    def mark_ready(self, job: Job, now: float) -> None:
        self._drop_expected(job)
        super().mark_ready(job, now)

    def mark_finished(self, job: Job, now: float, batches: int, cost: float, selectivity: float) -> None:
        self._expect_job(job)

    def rank_jobs(self, now: float) -> Iterable[Job]:
        if len(self._entries) < 2 or not self._expected:
            return super().rank_jobs(now)
        best = self._entries[0][3]
        chosen = self._find_alternative(best, now)
        if chosen is None:
            return super().rank_jobs(now)
        return chain([chosen], (job for job in super().rank_jobs(now) if job is not chosen))

    def _find_alternative(self, best: Job, now: float) -> Job | None:
        """Return the job to start with instead of the best, or None."""
        best_benefit, available = -self.compute_key(best), best.estimated_cost
        coming_jobs = self._list_coming(now, now + available)
        better = [j for j in coming_jobs if j.weight * j.profile.period / j.profile.usual_cost > best_benefit]
        fillings = list(_list_fillings(self._list_fillers(available), available)) if better else []
        alternative: Job | None = None
        for coming in better:
            for filling in fillings:
                gain = filling.gain + coming.weight * coming.profile.period
                benefit = gain / (filling.time + coming.profile.usual_cost)
                if benefit > best_benefit and filling.time >= coming.expected - now:
                    best_benefit, alternative = benefit, filling.first
        return alternative

    def _list_fillers(self, available: float) -> list[Job]:
        """Return the best jobs that fit the available time."""
        considered = (entry[3] for entry in islice(self._entries, 1, CONSIDERED_JOBS))
        return list(islice((job for job in considered if job.estimated_cost < available), MAX_FILLERS))

    def _list_coming(self, now: float, until: float) -> Iterator[Job]:
        first = bisect_right(self._expected, now, key=lambda c: c[0])
        last = bisect_right(self._expected, until, key=lambda c: c[0])
        return (job for _, _, job in self._expected[first : min(last, first + CONSIDERED_JOBS)])

    def _expect_job(self, job: Job) -> None:
        self._drop_expected(job)
        self._expected_at[job.name] = job.expected
        insort(self._expected, (job.expected, job.name, job))

    def _drop_expected(self, job: Job) -> None:
        expected = self._expected_at.pop(job.name, None)
        if expected is not None:
            del self._expected[bisect_left(self._expected, (expected, job.name, job))]


def _list_fillings(jobs: Sequence[Job], available: float) -> Iterator[_FillerSet]:
    """Return all sets that fit the available time; the first job of each is its best."""
    for i, job in enumerate(jobs):
        single = _FillerSet(job, job.estimated_cost, job.weight * job.staleness_gain)
        yield from _grow_filling(single, jobs[i + 1 :], available)


def _grow_filling(filling: _FillerSet, others: Sequence[Job], available: float) -> Iterator[_FillerSet]:
    if filling.time >= available:
        return
    yield filling
    for i, job in enumerate(others):
        yield from _grow_filling(filling.add_job(job), others[i + 1 :], available)
