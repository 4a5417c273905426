"""Rate-based (RB of STAFiLOS, after Sharaf et al.)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from tidemill.scheduler.hierarchy import index_children
from tidemill.scheduler.job import Job, JobProfile
from tidemill.scheduler.sorted_policy import RoundPolicy


@dataclass(slots=True)
class _RunStatistics:
    """Costs and selectivities of a job's runs, per batch."""

    batches: int = 0
    cost: float = 0.0
    selectivity: float = 0.0  # summed over batches

    def add_run(self, batches: int, cost: float, selectivity: float) -> None:
        self.batches += batches
        self.cost += cost
        self.selectivity += batches * selectivity


@dataclass(frozen=True, slots=True)
class RatePath:
    """A batch on its way to all tables derived from it: the rows that arrive there, and the total cost."""

    selectivity: float
    cost: float

    @property
    def rate(self) -> float:
        return self.selectivity / self.cost


def combine_paths(cost: float, selectivity: float, branches: Sequence[RatePath]) -> RatePath:
    """Combine a table with its branches, over which both add up. The selectivity of a last table counts as one."""
    if not branches:
        return RatePath(1.0, cost)
    total = selectivity * sum(b.selectivity for b in branches)
    return RatePath(total, cost + selectivity * sum(b.cost for b in branches))


class RateBased(RoundPolicy):
    """Runs the job with the most rows per time that reach the end of its pathways, on the batches before the round."""

    def __init__(self) -> None:
        super().__init__()
        self._round_start = 0.0
        self._profiles: Mapping[str, JobProfile] = {}
        self._children: Mapping[str, Sequence[str]] = {}
        self._statistics: dict[str, _RunStatistics] = {}
        self._paths: dict[str, RatePath] = {}

    def set_jobs(self, jobs: Sequence[Job]) -> None:
        self._profiles = {job.name: job.profile for job in jobs}
        self._children = index_children(self._profiles.values())
        self._statistics = {name: self._statistics.get(name, _RunStatistics()) for name in self._profiles}
        self._paths.clear()

    def compute_key(self, job: Job) -> float:
        return -self.find_path(job.name).rate

    def find_due_round(self, job: Job) -> int:
        return self.round + 1

    def mark_finished(self, job: Job, now: float, batches: int, cost: float, selectivity: float) -> None:
        self._statistics[job.name].add_run(batches, cost, selectivity)
        self._invalidate_paths(job.name)

    def start_round(self, now: float) -> bool:
        self._round_start = now
        return super().start_round(now)

    def compute_batch_limit(self, job: Job, now: float) -> int:
        return max(1, sum(1 for _ in takewhile(lambda batch: batch[0] <= self._round_start, job.batches)))

    def find_path(self, name: str) -> RatePath:
        if name not in self._paths:
            branches = [self.find_path(child) for child in self._children[name]]
            self._paths[name] = combine_paths(*self._compute_average(name), branches)
        return self._paths[name]

    def _compute_average(self, name: str) -> tuple[float, float]:
        """Return cost and selectivity per batch; those of the profile before the first run."""
        statistics, profile = self._statistics[name], self._profiles[name]
        if not statistics.batches:
            return profile.usual_cost, profile.selectivity
        return statistics.cost / statistics.batches, statistics.selectivity / statistics.batches

    def _invalidate_paths(self, name: str) -> None:
        """Invalidate the paths through a table; they are computed again on demand."""
        stale: Iterable[str] = [name]
        while stale:
            invalidated = [n for n in stale if self._paths.pop(n, None) is not None]
            stale = {parent for n in invalidated for parent in self._profiles[n].parents}
