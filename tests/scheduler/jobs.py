"""Jobs for tests, with as little to say as possible."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.scheduler.dispatcher import Dispatcher, DispatchLimits
from tidemill.scheduler.job import Job, JobProfile, UpdateCost
from tidemill.scheduler.order import SchedulingPolicy
from tidemill.scheduler.tracks.lane import SingleQueuePlacement, TrackPlacement


def profile(name: str, period: float = 10.0, cost: float = 1.0, priority: float = 1.0, *parents: str) -> JobProfile:
    """A table whose updates take the same time however much they load."""
    return JobProfile(name, period, UpdateCost(cost, 0.0), priority, parents)


def job(name: str, period: float = 10.0, cost: float = 1.0, priority: float = 1.0, *parents: str) -> Job:
    return Job(profile(name, period, cost, priority, *parents), priority)


def arrived(job: Job, *batches: tuple[float, float]) -> Job:
    """The same job, with batches that came at a time and bring it up to a moment."""
    for at, upto in batches:
        job.add_batch((at, upto))
    return job


def told(order: SchedulingPolicy, jobs: Sequence[Job], now: float = 0.0) -> list[str]:
    """All are ready: in which order?"""
    order.set_jobs(jobs)
    for each in jobs:
        order.mark_ready(each, now)
    return names(order, now)


def names(order: SchedulingPolicy, now: float = 0.0) -> list[str]:
    return [each.name for each in order.rank_jobs(now)]


def dispatcher(
    jobs: Sequence[Job],
    order: SchedulingPolicy,
    tracks: int = 1,
    *,
    placement: TrackPlacement | None = None,
    chop: float | None = None,
    patience: float | None = None,
) -> Dispatcher:
    return Dispatcher(jobs, order, placement or SingleQueuePlacement(), tracks, DispatchLimits(chop, patience))
