"""First come, first served."""

from __future__ import annotations

from tidemill.scheduler.job import Job
from tidemill.scheduler.sorted_policy import Sorted


class FirstCome(Sorted):
    """Whoever has waited longest."""

    def key(self, job: Job) -> float:
        return job.released
