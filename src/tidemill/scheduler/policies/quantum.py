"""Quantum priority (QBS of STAFiLOS, after the scheduler of Linux)."""

from collections.abc import Callable, Sequence
from math import floor, log2

from tidemill.errors import ConfigError
from tidemill.scheduler.job import Job
from tidemill.scheduler.policies.basic import count_affordable_batches
from tidemill.scheduler.sorted_policy import RoundPolicy

LEVELS = 40
"""Number of levels; a small level is important."""

MAX_SAVED_QUANTA = 2.0
"""Number of its quanta that a job can save: without a limit an idle job would accumulate them."""

Level = Callable[[Job], float]


def compute_level(job: Job) -> float:
    """Return the level of a job: 20 for a weight of one, and two levels less for each doubling."""
    return min(max(LEVELS / 2 - 2 * log2(job.weight), 0.0), LEVELS - 1.0) if job.weight > 0 else LEVELS - 1.0


def compute_quantum(level: float, basic: float) -> float:
    """Return the time that a job of a level gets in each round."""
    if level >= LEVELS:
        raise ConfigError(f"expected a level below {LEVELS}, found {level:g}; a small level is an important one")
    return (LEVELS - level) * basic * (1 if level >= LEVELS / 2 else 4)


class QuantumPriority(RoundPolicy):
    """Runs the most important job while its quantum lasts; an overdraft is deducted from the next rounds' quanta."""

    def __init__(self, basic: float = 1.0, level: Level = compute_level) -> None:
        super().__init__()
        self._basic, self._level = basic, level
        self._quantum: dict[str, float] = {}
        self._account: dict[str, tuple[int, float]] = {}  # round, and the balance in it

    def set_jobs(self, jobs: Sequence[Job]) -> None:
        self._quantum = {job.name: compute_quantum(self._level(job), self._basic) for job in jobs}
        initial = {name: (self.round, quantum) for name, quantum in self._quantum.items()}
        self._account = {name: self._account.get(name, account) for name, account in initial.items()}

    def compute_key(self, job: Job) -> float:
        return self._level(job)

    def find_due_round(self, job: Job) -> int:
        balance = self._compute_balance(job.name)
        return self.round if balance > 0 else self.round + 1 + floor(-balance / self._quantum[job.name])

    def mark_finished(self, job: Job, now: float, batches: int, cost: float, selectivity: float) -> None:
        self._account[job.name] = self.round, self._compute_balance(job.name) - cost

    def compute_batch_limit(self, job: Job, now: float) -> int:
        return count_affordable_batches(job, self._compute_balance(job.name))

    def _compute_balance(self, name: str) -> float:
        """Return the current balance: each round adds a quantum to the last balance."""
        round_, balance = self._account[name]
        quantum = self._quantum[name]
        return min(balance + (self.round - round_) * quantum, MAX_SAVED_QUANTA * quantum)
