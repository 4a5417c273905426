"""Rate-based (RB of STAFiLOS, after Sharaf et al.)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from tidemill.scheduler.hierarchy import index_children
from tidemill.scheduler.job import Job, JobProfile
from tidemill.scheduler.round_policy import RoundPolicy


@dataclass(slots=True)
class _RunStatistics:
    """What the runs of a job took and made, by the batch."""

    batches: int = 0
    cost: float = 0.0
    selectivity: float = 0.0  # summed over batches

    def add_run(self, batches: int, cost: float, selectivity: float) -> None:
        self.batches += batches
        self.cost += cost
        self.selectivity += batches * selectivity


@dataclass(frozen=True, slots=True)
class RatePath:
    """Of a batch, until it has reached all that is made of it: what arrives there, and the time it takes."""

    selectivity: float
    cost: float

    @property
    def rate(self) -> float:
        return self.selectivity / self.cost


def combine_paths(cost: float, selectivity: float, branches: Sequence[RatePath]) -> RatePath:
    """Over branches both add up. What leaves a last table is not counted, so its selectivity is one."""
    if not branches:
        return RatePath(1.0, cost)
    return RatePath(
        selectivity * sum(b.selectivity for b in branches), cost + selectivity * sum(b.cost for b in branches)
    )


class RateBased(RoundPolicy):
    """Whoever gets most to the end of its pathways for the time that takes all along them.

    A round serves what waited when it began.
    """

    def __init__(self) -> None:
        super().__init__()
        self._began = 0.0
        self._profiles: Mapping[str, JobProfile] = {}
        self._below: Mapping[str, Sequence[str]] = {}
        self._seen: dict[str, _RunStatistics] = {}
        self._paths: dict[str, RatePath] = {}

    def set_jobs(self, jobs: Sequence[Job]) -> None:
        self._profiles = {job.name: job.profile for job in jobs}
        self._below = index_children(self._profiles.values())
        self._seen = {name: self._seen.get(name, _RunStatistics()) for name in self._profiles}
        self._paths.clear()

    def compute_key(self, job: Job) -> float:
        return -self.find_path(job.name).rate

    def find_due_round(self, job: Job) -> int:
        return self.round + 1

    def mark_finished(self, job: Job, now: float, grain: int, cost: float, selectivity: float) -> None:
        self._seen[job.name].add_run(grain, cost, selectivity)
        self._invalidate_paths(job.name)

    def start_round(self, now: float) -> bool:
        self._began = now
        return super().start_round(now)

    def compute_batch_limit(self, job: Job, now: float) -> int:
        return max(1, sum(1 for _ in takewhile(lambda batch: batch[0] <= self._began, job.batches)))

    def find_path(self, name: str) -> RatePath:
        if name not in self._paths:
            cost, selectivity = self._compute_average(name)
            self._paths[name] = combine_paths(cost, selectivity, [self.find_path(child) for child in self._below[name]])
        return self._paths[name]

    def _compute_average(self, name: str) -> tuple[float, float]:
        """Of a batch; what is known beforehand, until there was a run."""
        seen, profile = self._seen[name], self._profiles[name]
        if not seen.batches:
            return profile.usual, profile.selectivity
        return seen.cost / seen.batches, seen.selectivity / seen.batches

    def _invalidate_paths(self, name: str) -> None:
        """Paths through a table are found anew when they are needed."""
        stale: Iterable[str] = [name]
        while stale:
            known = [n for n in stale if self._paths.pop(n, None) is not None]
            stale = {parent for n in known for parent in self._profiles[n].parents}
