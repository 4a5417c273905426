"""The first of two interfaces: which job next?

An order is told what happens and asked who is best. It reads no clock, keeps no data and starts nothing: the same order
serves the simulator and the live dispatcher.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tidemill.scheduler.job import Job


class Order(Protocol):
    """A policy. One's own is usually a key on `Sorted`."""

    def setup(self, jobs: Sequence[Job]) -> None:
        """These are all the jobs from now on. Those that are ready stay so; the others are not until it is said."""

    def ready(self, job: Job, now: float) -> None:
        """Something waits for the job, or something more; the job does not run. Saying so twice changes nothing."""

    def taken(self, job: Job, now: float) -> None:
        """A job that was ready begins to run, whatever its rank was."""

    def done(self, job: Job, now: float, grain: int, cost: float, selectivity: float) -> None:
        """A run has ended that loaded so many batches, took so long, and made so many rows for each that it read.

        If more waits for the job, `ready` is said next.
        """

    def ranked(self, now: float) -> Iterable[Job]:
        """Those of the ready jobs that may run now, the best first. Asking changes nothing."""
        ...

    def refill(self, now: float) -> bool:
        """Of those that are ready none may run. Begin a new round, and say whether one may run now."""
        ...

    def grain(self, job: Job, now: float) -> int:
        """How many of the waiting batches the job should load at once."""
        ...


class Plain:
    """What an order needs that learns nothing, knows no rounds, and loads all that waits."""

    def setup(self, jobs: Sequence[Job]) -> None:
        pass

    def done(self, job: Job, now: float, grain: int, cost: float, selectivity: float) -> None:
        pass

    def refill(self, now: float) -> bool:
        return False

    def grain(self, job: Job, now: float) -> int:
        return len(job.batches)
