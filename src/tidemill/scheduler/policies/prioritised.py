"""Prioritised EDF."""

from __future__ import annotations

from tidemill.scheduler.job import Job
from tidemill.scheduler.sorted_policy import Sorted


class PrioritisedDeadline(Sorted):
    """The most important first, and among those the earliest deadline."""

    def key(self, job: Job) -> tuple[float, float]:
        return -job.weight, job.released + job.profile.period
