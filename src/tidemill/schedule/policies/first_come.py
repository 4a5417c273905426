"""First come, first served."""

from __future__ import annotations

from tidemill.schedule.job import Job
from tidemill.schedule.sorted import Sorted


class FirstCome(Sorted):
    """Whoever has waited longest."""

    def key(self, job: Job) -> float:
        return job.released
