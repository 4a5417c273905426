"""The first of two interfaces: which job next?

An order is told what happens and asked who is best. It reads no clock, keeps no data and starts nothing: the same order
serves the simulator and the live dispatcher.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tidemill.scheduler.job import Job


class SchedulingPolicy(Protocol):
    """A policy. One's own is usually a key on `Sorted`."""

    def set_jobs(self, jobs: Sequence[Job]) -> None:
        """These are all the jobs from now on. Those that are ready stay so; the others are not until it is said."""

    def mark_ready(self, job: Job, now: float) -> None:
        """Something waits for the job, or something more; the job does not run. Saying so twice changes nothing."""

    def mark_started(self, job: Job, now: float) -> None:
        """A job that was ready begins to run, whatever its rank was."""

    def mark_finished(self, job: Job, now: float, grain: int, cost: float, selectivity: float) -> None:
        """A run has ended that loaded so many batches, took so long, and made so many rows for each that it read.

        If more waits for the job, `ready` is said next.
        """

    def rank_jobs(self, now: float) -> Iterable[Job]:
        """Those of the ready jobs that may run now, the best first. Asking changes nothing."""
        ...

    def start_round(self, now: float) -> bool:
        """Of those that are ready none may run. Begin a new round, and say whether one may run now."""
        ...

    def compute_batch_limit(self, job: Job, now: float) -> int:
        """How many of the waiting batches the job should load at once."""
        ...


class BasePolicy:
    """What an order needs that learns nothing, knows no rounds, and loads all that waits."""

    def set_jobs(self, jobs: Sequence[Job]) -> None:
        pass

    def mark_finished(self, job: Job, now: float, grain: int, cost: float, selectivity: float) -> None:
        pass

    def start_round(self, now: float) -> bool:
        return False

    def compute_batch_limit(self, job: Job, now: float) -> int:
        return len(job.batches)
