"""Slow and normal periods of a warehouse, and workloads scaled to a load."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemill.scheduler.job import UpdateCost
from tidemill.sim.staleness.workload import Workload


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Normal and slow periods alternate; in slow ones everything takes `factor` times as long.

    On average everything takes twice as long as in normal periods: the slower the slow periods are, the longer are the
    normal ones between them.
    """

    factor: float = 3.0
    length: float = 503.3  # of a slow period; with it cycles share no factor with any period

    def __call__(self, now: float) -> float:
        """The factor of a run's time, relative to the average."""
        return (self.factor if now % (self.length * (self.factor - 1)) < self.length else 1.0) / 2.0


def scale_to_load(workload: Workload, load: float) -> Workload:
    """The workload with update costs scaled to this load."""
    factor, costs = load / workload.load, (table.cost for table in workload.tables)
    scaled = (UpdateCost(factor * cost.start, factor * cost.rate) for cost in costs)
    tables = (replace(table, cost=cost) for table, cost in zip(workload.tables, scaled, strict=True))
    return replace(workload, tables=tuple(tables))
