"""Quantum priority (QBS of STAFiLOS, after the scheduler of Linux)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, log2

from tidemill.errors import ConfigError
from tidemill.scheduler.job import Job
from tidemill.scheduler.policies.basic import count_affordable_batches
from tidemill.scheduler.round_policy import RoundPolicy

LEVELS = 40
"""Levels are below that; a small one is important."""

SAVED = 2.0
"""How many of its quanta a job can save up: without a limit an idle one would hoard."""

Level = Callable[[Job], float]


def compute_level(job: Job) -> float:
    """20 for a weight of one, and two levels less for each doubling."""
    return min(max(LEVELS / 2 - 2 * log2(job.weight), 0.0), LEVELS - 1.0) if job.weight > 0 else LEVELS - 1.0


def compute_quantum(of: float, basic: float) -> float:
    """The time that a job of a level is given in each round."""
    if of >= LEVELS:
        raise ConfigError(f"expected a level below {LEVELS}, found {of:g}; a small level is an important one")
    return (LEVELS - of) * basic * (1 if of >= LEVELS / 2 else 4)


class QuantumPriority(RoundPolicy):
    """The most important first, as long as it has some of its quantum left; then it waits for the next round.

    Who overdraws its quantum begins the next round with less, or waits for a later one.
    """

    def __init__(self, basic: float = 1.0, level: Level = compute_level) -> None:
        super().__init__()
        self._basic, self._level = basic, level
        self._quantum: dict[str, float] = {}
        self._account: dict[str, tuple[int, float]] = {}  # in which round, which balance

    def set_jobs(self, jobs: Sequence[Job]) -> None:
        self._quantum = {job.name: compute_quantum(self._level(job), self._basic) for job in jobs}
        self._account = {name: self._account.get(name, (self.round, given)) for name, given in self._quantum.items()}

    def compute_key(self, job: Job) -> float:
        return self._level(job)

    def find_due_round(self, job: Job) -> int:
        balance = self._compute_balance(job.name)
        return self.round if balance > 0 else self.round + 1 + floor(-balance / self._quantum[job.name])

    def mark_finished(self, job: Job, now: float, grain: int, cost: float, selectivity: float) -> None:
        self._account[job.name] = self.round, self._compute_balance(job.name) - cost

    def compute_batch_limit(self, job: Job, now: float) -> int:
        return count_affordable_batches(job, self._compute_balance(job.name))

    def _compute_balance(self, name: str) -> float:
        """Each round adds a quantum to what was left, or lacking."""
        of, balance = self._account[name]
        given = self._quantum[name]
        return min(balance + (self.round - of) * given, SAVED * given)
