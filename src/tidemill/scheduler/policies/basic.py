"""The policies of a few lines: Max Benefit, EDF, first come first served, random and round-robin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from random import Random

from tidemill.scheduler.job import Job
from tidemill.scheduler.order import BasePolicy
from tidemill.scheduler.round_policy import RoundPolicy
from tidemill.scheduler.sorted_policy import SortedPolicy


def count_affordable_batches(job: Job, allowance: float) -> int:
    """How many of the waiting batches use the allowance up; all, if they do not; one in any case.

    The last of them may go beyond it: a batch is never split, and what is overdrawn is paid for later.
    """
    cost, fresh = job.profile.cost, job.fresh
    for i, (_, upto) in enumerate(job.batches, start=1):
        if cost(upto - fresh) >= allowance:
            return i
    return len(job.batches)


class MaxBenefit(SortedPolicy):
    """Whoever lowers weighted staleness most for the time it takes."""

    def compute_key(self, job: Job) -> float:
        """The benefit, negative: by how much less stale a table gets for each unit of time spent on it, by weight."""
        delta = job.batches[-1][1] - job.fresh
        cost = job.profile.cost
        return -job.weight * delta / (cost.start + cost.rate * delta)


class EarliestDeadline(SortedPolicy):
    """A batch should be loaded before the next one comes."""

    def compute_key(self, job: Job) -> float:
        return job.release_time + job.profile.period


class PrioritisedDeadline(SortedPolicy):
    """The most important first, and among those the earliest deadline."""

    def compute_key(self, job: Job) -> tuple[float, float]:
        return -job.weight, job.release_time + job.profile.period


class FirstCome(SortedPolicy):
    """Whoever has waited longest."""

    def compute_key(self, job: Job) -> float:
        return job.release_time


class RandomPolicy(BasePolicy):
    """Any of the ready jobs, all equally likely.

    The jobs are kept shuffled: who comes gets any place, and what is left when the first is taken is as random as
    before.
    """

    def __init__(self, random: Random | None = None) -> None:
        self._random = random or Random(0)
        self._shuffled: list[Job] = []
        self._known: set[str] = set()

    def mark_ready(self, job: Job, now: float) -> None:
        if job.name not in self._known:
            self._known.add(job.name)
            self._shuffled.insert(self._random.randrange(len(self._shuffled) + 1), job)

    def mark_started(self, job: Job, now: float) -> None:
        if job.name in self._known:
            self._known.remove(job.name)
            self._shuffled.remove(job)

    def rank_jobs(self, now: float) -> Iterable[Job]:
        return self._shuffled


class RoundRobin(RoundPolicy):
    """One after the other, each for a slice of time in a round; who has used its slice waits for the next round.

    A job gets one slice a round and no more, even if it runs out of data and has new data before the round is over.
    """

    def __init__(self, slice_: float = 1.0) -> None:
        super().__init__()
        self._slice = slice_
        self._left: dict[str, tuple[int, float]] = {}  # in which round, how much of its slice
        self._turns = count()

    def set_jobs(self, jobs: Sequence[Job]) -> None:
        names = {job.name for job in jobs}
        self._left = {name: left for name, left in self._left.items() if name in names}

    def compute_key(self, job: Job) -> float:
        return next(self._turns)

    def find_due_round(self, job: Job) -> int:
        return self.round if self._compute_allowance(job) > 0 else self.round + 1

    def mark_finished(self, job: Job, now: float, grain: int, cost: float, selectivity: float) -> None:
        self._left[job.name] = self.round, self._compute_allowance(job) - cost

    def compute_batch_limit(self, job: Job, now: float) -> int:
        return count_affordable_batches(job, self._compute_allowance(job))

    def _compute_allowance(self, job: Job) -> float:
        of, left = self._left.get(job.name, (self.round, self._slice))
        return left if of == self.round else self._slice
