"""Short constructors of jobs for tests."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from tidemill.scheduler.dispatcher import Dispatcher, DispatchLimits
from tidemill.scheduler.job import Job, JobProfile, UpdateCost
from tidemill.scheduler.order import SchedulingPolicy
from tidemill.scheduler.tracks.lane import SingleQueuePlacement, TrackPlacement


def profile(name: str, period: float = 10.0, cost: float = 1.0, priority: float = 1.0, *parents: str) -> JobProfile:
    """A table whose runs take the same time for any amount of data."""
    return JobProfile(name, period, UpdateCost(cost, 0.0), priority, parents)


def job(name: str, period: float = 10.0, cost: float = 1.0, priority: float = 1.0, *parents: str) -> Job:
    return Job(profile(name, period, cost, priority, *parents), priority)


def add_batches(job: Job, *batches: tuple[float, float]) -> Job:
    """Add batches to a job: each has an arrival time and the data time that it completes."""
    for arrival, upto in batches:
        job.add_batch((arrival, upto))
    return job


def rank_ready_jobs(order: SchedulingPolicy, jobs: Sequence[Job], now: float = 0.0) -> list[str]:
    """Mark all jobs as ready; returns their order."""
    order.set_jobs(jobs)
    for table_job in jobs:
        order.mark_ready(table_job, now)
    return list_ranking(order, now)


def list_ranking(order: SchedulingPolicy, now: float = 0.0) -> list[str]:
    return [table_job.name for table_job in order.rank_jobs(now)]


def dispatcher(
    jobs: Sequence[Job],
    order: SchedulingPolicy,
    tracks: int = 1,
    *,
    placement: TrackPlacement | None = None,
    catch_up_periods: float | None = None,
    patience: float | None = None,
    batch_limit: int | None = None,
) -> Dispatcher:
    limits = DispatchLimits(catch_up_periods, patience, batch_limit)
    return Dispatcher(jobs, order, placement or SingleQueuePlacement(), tracks, limits)


class JobState(StrEnum):
    """The state of a job, as in STAFiLOS."""

    ACTIVE = "active"  # has pending data, and the policy lets it run as soon as there is a track
    WAITING = "waiting"  # has pending data, and the policy lets it wait for another round
    INACTIVE = "inactive"  # has no pending data
    RUNNING = "running"


def list_states(dispatcher: Dispatcher, now: float) -> dict[str, JobState]:
    """The state of every job."""
    states = dict.fromkeys(dispatcher._jobs, JobState.INACTIVE)
    states |= dict.fromkeys(dispatcher._guard.waiting, JobState.WAITING)
    states |= {job.name: JobState.ACTIVE for job in dispatcher._order.rank_jobs(now)}
    return states | {name: JobState.RUNNING for name in dispatcher._track_table.running if name in states}
