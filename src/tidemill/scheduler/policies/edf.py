"""Earliest deadline first."""

from __future__ import annotations

from tidemill.scheduler.job import Job
from tidemill.scheduler.sorted_policy import Sorted


class EarliestDeadline(Sorted):
    """A batch should be loaded before the next one comes."""

    def key(self, job: Job) -> float:
        return job.released + job.profile.period
