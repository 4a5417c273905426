"""Jobs for tests, with as little to say as possible."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.scheduler.dispatcher import Dispatcher, Limits
from tidemill.scheduler.job import Cost, Job, Profile
from tidemill.scheduler.order import Order
from tidemill.scheduler.tracks.lane import Placement, SingleQueue


def profile(name: str, period: float = 10.0, cost: float = 1.0, priority: float = 1.0, *parents: str) -> Profile:
    """A table whose updates take the same time however much they load."""
    return Profile(name, period, Cost(cost, 0.0), priority, parents)


def job(name: str, period: float = 10.0, cost: float = 1.0, priority: float = 1.0, *parents: str) -> Job:
    return Job(profile(name, period, cost, priority, *parents), priority)


def arrived(job: Job, *batches: tuple[float, float]) -> Job:
    """The same job, with batches that came at a time and bring it up to a moment."""
    for at, upto in batches:
        job.arrive((at, upto))
    return job


def told(order: Order, jobs: Sequence[Job], now: float = 0.0) -> list[str]:
    """All are ready: in which order?"""
    order.setup(jobs)
    for each in jobs:
        order.ready(each, now)
    return names(order, now)


def names(order: Order, now: float = 0.0) -> list[str]:
    return [each.name for each in order.ranked(now)]


def dispatcher(
    jobs: Sequence[Job],
    order: Order,
    tracks: int = 1,
    *,
    placement: Placement | None = None,
    chop: float | None = None,
    patience: float | None = None,
) -> Dispatcher:
    return Dispatcher(jobs, order, placement or SingleQueue(), tracks, Limits(chop, patience))
