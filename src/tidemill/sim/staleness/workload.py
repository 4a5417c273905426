"""Simulated workloads: tables, the tracks they share, and the variation of run times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum

from tidemill.scheduler.dispatcher import Dispatcher, DispatchLimits
from tidemill.scheduler.hierarchy import PriorityInheritance
from tidemill.scheduler.job import Job, JobProfile
from tidemill.scheduler.policies import POLICIES
from tidemill.scheduler.tracks import PLACEMENTS


@dataclass(frozen=True, slots=True)
class Workload:
    """Tables and tracks. Costs are averages over time, as a dispatcher would estimate them."""

    tables: tuple[JobProfile, ...]  # parents first
    tracks: int
    slowdown: Callable[[float], float] | None = None  # the factor of a run's time, by the time of its start
    noise: float = 0.5  # a run takes between this and one plus this times its estimate

    @property
    def load(self) -> float:
        """The share of the tracks that is needed if nothing is ever late."""
        return fsum(table.load for table in self.tables) / self.tracks


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
