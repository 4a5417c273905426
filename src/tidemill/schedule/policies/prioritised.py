"""Prioritised EDF."""

from __future__ import annotations

from tidemill.schedule.job import Job
from tidemill.schedule.sorted import Sorted


class PrioritisedDeadline(Sorted):
    """The most important first, and among those the earliest deadline."""

    def key(self, job: Job) -> tuple[float, float]:
        return -job.weight, job.released + job.profile.period
