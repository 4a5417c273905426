"""Round-robin."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from tidemill.scheduler.job import Job
from tidemill.scheduler.policies.allowance import within
from tidemill.scheduler.round_policy import InRounds


class RoundRobin(InRounds):
    """One after the other, each for a slice of time in a round; who has used its slice waits for the next round.

    A job gets one slice a round and no more, even if it runs out of data and has new data before the round is over.
    """

    def __init__(self, slice_: float = 1.0) -> None:
        super().__init__()
        self._slice = slice_
        self._left: dict[str, tuple[int, float]] = {}  # in which round, how much of its slice
        self._turns = count()

    def setup(self, jobs: Sequence[Job]) -> None:
        names = {job.name for job in jobs}
        self._left = {name: left for name, left in self._left.items() if name in names}

    def key(self, job: Job) -> float:
        return next(self._turns)

    def due(self, job: Job) -> int:
        return self.round if self._allowance(job) > 0 else self.round + 1

    def done(self, job: Job, now: float, grain: int, cost: float, selectivity: float) -> None:
        self._left[job.name] = self.round, self._allowance(job) - cost

    def grain(self, job: Job, now: float) -> int:
        return within(job, self._allowance(job))

    def _allowance(self, job: Job) -> float:
        of, left = self._left.get(job.name, (self.round, self._slice))
        return left if of == self.round else self._slice
