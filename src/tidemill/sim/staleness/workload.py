"""Simulated workloads: tables, the tracks they share, and the variation of run times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum

from tidemill.scheduler.dispatcher import Dispatcher, DispatchLimits
from tidemill.scheduler.hierarchy import PriorityInheritance
from tidemill.scheduler.job import Job, JobProfile, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.scheduler.tracks import PLACEMENTS


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Normal and slow periods alternate; in slow ones everything takes `factor` times as long.

    On average everything takes twice as long as in normal periods: the slower the slow periods are, the longer are the
    normal ones between them.
    """

    factor: float = 3.0
    length: float = 503.3  # of a slow period; with it cycles share no factor with any period

    @property
    def mean_factor(self) -> float:
        return 2.0

    def find_factor(self, now: float) -> float:
        return self.factor if now % (self.length * (self.factor - 1)) < self.length else 1.0


@dataclass(frozen=True, slots=True)
class Workload:
    """Tables and tracks. Costs are averages over slow and normal periods, as a dispatcher would estimate them."""

    tables: tuple[JobProfile, ...]  # parents first
    tracks: int
    slowdown: Slowdown | None = None
    noise: float = 0.5  # a run takes between this and one plus this times its estimate

    @property
    def load(self) -> float:
        """The share of the tracks that is needed if nothing is ever late."""
        return fsum(table.load for table in self.tables) / self.tracks

    def scale_to_load(self, load: float) -> Workload:
        """Return the workload with update costs scaled to this load."""
        factor, costs = load / self.load, (table.cost for table in self.tables)
        scaled = (UpdateCost(factor * cost.start, factor * cost.rate) for cost in costs)
        tables = (replace(table, cost=cost) for table, cost in zip(self.tables, scaled, strict=True))
        return replace(self, tables=tuple(tables))


@dataclass(frozen=True, slots=True)
class SimulationConfig:
    """The dispatcher's settings. By default without a starvation guard, as in the papers."""

    policy: str = "max-benefit"
    placement: str = "single"
    inheritance: PriorityInheritance = PriorityInheritance.MAX
    catch_up_periods: float | None = None
    patience: float | None = None
    batch_limit: int | None = None

    def build_dispatcher(self, jobs: Sequence[Job], tracks: int) -> Dispatcher:
        limits = DispatchLimits(self.catch_up_periods, self.patience, self.batch_limit)
        return Dispatcher(jobs, POLICIES[self.policy](), PLACEMENTS[self.placement], tracks, limits)
