"""Simple policies: Max Benefit, EDF, first come first served, random and round-robin."""

from collections.abc import Iterable, Sequence
from itertools import count
from random import Random

from tidemill.scheduler.job import Job
from tidemill.scheduler.order import SchedulingPolicy
from tidemill.scheduler.sorted_policy import RoundPolicy, SortedPolicy


def count_affordable_batches(job: Job, allowance: float) -> int:
    """Return how many pending batches use up the allowance, at least one; the last may exceed it, on credit."""
    cost, fresh = job.profile.cost, job.fresh
    for i, (_, upto) in enumerate(job.batches, start=1):
        if cost(upto - fresh) >= allowance:
            return i
    return len(job.batches)


class MaxBenefit(SortedPolicy):
    """Runs the job that lowers weighted staleness most per unit of time."""

    def compute_key(self, job: Job) -> float:
        """Return the negative benefit: the weighted gain of freshness for each unit of time spent."""
        delta = job.batches[-1][1] - job.fresh
        cost = job.profile.cost
        return -job.weight * delta / (cost.start + cost.rate * delta) if delta else 0.0


class EarliestDeadline(SortedPolicy):
    """Runs the earliest deadline first: a batch should be loaded before the next one arrives."""

    def compute_key(self, job: Job) -> float:
        return job.release_time + job.profile.period


class PrioritisedDeadline(SortedPolicy):
    """Runs the most important job first, and among equals the earliest deadline."""

    def compute_key(self, job: Job) -> tuple[float, float]:
        return -job.weight, job.release_time + job.profile.period


class FirstCome(SortedPolicy):
    """Runs the job that has waited longest."""

    def compute_key(self, job: Job) -> float:
        return job.release_time


class RandomPolicy(SchedulingPolicy):
    """Runs a random ready job: a new one is inserted at a random position, so the list stays uniformly random."""

    def __init__(self, random: Random | None = None) -> None:
        self._random = random or Random(0)
        self._shuffled: list[Job] = []
        self._ready: set[str] = set()

    def mark_ready(self, job: Job, now: float) -> None:
        if job.name not in self._ready:
            self._ready.add(job.name)
            self._shuffled.insert(self._random.randrange(len(self._shuffled) + 1), job)

    def mark_started(self, job: Job, now: float) -> None:
        if job.name in self._ready:
            self._ready.remove(job.name)
            self._shuffled.remove(job)

    def rank_jobs(self, now: float) -> Iterable[Job]:
        return self._shuffled


class RoundRobin(RoundPolicy):
    """Runs jobs in turn, each for one time slice per round, even if it gets new data before the round is over."""

    def __init__(self, slice_: float = 1.0) -> None:
        super().__init__()
        self._slice = slice_
        self._rest: dict[str, tuple[int, float]] = {}  # round, and the rest of the slice in it
        self._turns = count()

    def set_jobs(self, jobs: Sequence[Job]) -> None:
        names = {job.name for job in jobs}
        self._rest = {name: rest for name, rest in self._rest.items() if name in names}

    def compute_key(self, job: Job) -> float:
        return next(self._turns)

    def find_due_round(self, job: Job) -> int:
        return self.round if self._compute_allowance(job) > 0 else self.round + 1

    def mark_finished(self, job: Job, now: float, batches: int, cost: float, selectivity: float) -> None:
        self._rest[job.name] = self.round, self._compute_allowance(job) - cost

    def compute_batch_limit(self, job: Job, now: float) -> int:
        return count_affordable_batches(job, self._compute_allowance(job))

    def _compute_allowance(self, job: Job) -> float:
        round_, rest = self._rest.get(job.name, (self.round, self._slice))
        return rest if round_ == self.round else self._slice
