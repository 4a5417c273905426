"""Earliest deadline first."""

from __future__ import annotations

from tidemill.schedule.job import Job
from tidemill.schedule.sorted import Sorted


class EarliestDeadline(Sorted):
    """A batch should be loaded before the next one comes."""

    def key(self, job: Job) -> float:
        return job.released + job.profile.period
