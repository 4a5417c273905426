"""The first of two interfaces: which job runs next?

A policy is notified of events and ranks the ready jobs. It reads no clock, stores no data and starts nothing: the same
policy serves the simulator and the live dispatcher.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from tidemill.scheduler.job import Job


class SchedulingPolicy(ABC):
    """A scheduling policy, by default without statistics or rounds. A custom one is usually a key on `SortedPolicy`."""

    def set_jobs(self, jobs: Sequence[Job]) -> None:
        """Set all jobs. Known jobs that are ready stay ready; others become ready by `mark_ready`."""
        return

    @abstractmethod
    def mark_ready(self, job: Job, now: float) -> None:
        """Mark a job that is not running as ready, because data is pending or more has arrived. Idempotent."""

    @abstractmethod
    def mark_started(self, job: Job, now: float) -> None:
        """Record the start of a ready job, which need not be the first in the ranking."""

    def mark_finished(self, job: Job, now: float, batches: int, cost: float, selectivity: float) -> None:
        """Record a run's end, batches, cost, and rows written per row read; `mark_ready` follows if data is pending."""
        return

    @abstractmethod
    def rank_jobs(self, now: float) -> Iterable[Job]:
        """Return the ready jobs that may run now, the best first, without changing any state."""

    def start_round(self, now: float) -> bool:
        """Start a new round, when no ready job may run; return whether one may run now."""
        return False

    def compute_batch_limit(self, job: Job, now: float) -> int:
        """Return how many of the pending batches the job should load at once."""
        return len(job.batches)
