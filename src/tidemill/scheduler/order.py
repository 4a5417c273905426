"""The first of two interfaces: which job runs next?

A policy is notified of events and ranks the ready jobs. It reads no clock, stores no data and starts nothing: the same
policy serves the simulator and the live dispatcher.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tidemill.scheduler.job import Job


class SchedulingPolicy(Protocol):
    """A scheduling policy. A custom one is usually a key on `SortedPolicy`."""

    def set_jobs(self, jobs: Sequence[Job]) -> None:
        """Set all jobs. Known jobs that are ready stay ready; others become ready by `mark_ready`."""

    def mark_ready(self, job: Job, now: float) -> None:
        """Mark a job that is not running as ready, because data is pending or more has arrived. Idempotent."""

    def mark_started(self, job: Job, now: float) -> None:
        """Record the start of a ready job, which need not be the first in the ranking."""

    def mark_finished(self, job: Job, now: float, batches: int, cost: float, selectivity: float) -> None:
        """Record the end of a run: the batches it loaded, its cost, and its rows written per row read.

        If data is still pending, `mark_ready` is called next.
        """

    def rank_jobs(self, now: float) -> Iterable[Job]:
        """Return the ready jobs that may run now, the best first, without changing any state."""
        ...

    def start_round(self, now: float) -> bool:
        """Start a new round, when no ready job may run; return whether one may run now."""
        ...

    def compute_batch_limit(self, job: Job, now: float) -> int:
        """Return how many of the pending batches the job should load at once."""
        ...


class BasePolicy:
    """Defaults for a policy without statistics or rounds that loads all pending batches."""

    def set_jobs(self, jobs: Sequence[Job]) -> None:
        pass

    def mark_finished(self, job: Job, now: float, batches: int, cost: float, selectivity: float) -> None:
        pass

    def start_round(self, now: float) -> bool:
        return False

    def compute_batch_limit(self, job: Job, now: float) -> int:
        return len(job.batches)
