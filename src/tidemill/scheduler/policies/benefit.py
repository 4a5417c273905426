"""Max Benefit."""

from __future__ import annotations

from tidemill.scheduler.job import Job
from tidemill.scheduler.sorted_policy import Sorted


class MaxBenefit(Sorted):
    """Whoever lowers weighted staleness most for the time it takes."""

    def key(self, job: Job) -> float:
        """The benefit, negative: by how much less stale a table gets for each unit of time spent on it, by weight."""
        delta = job.batches[-1][1] - job.fresh
        cost = job.profile.cost
        return -job.weight * delta / (cost.start + cost.rate * delta)
