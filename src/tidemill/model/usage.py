"""Usage records of past work, the filter that selects them, and their totals."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from tidemill.model.run import RunState


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """One action of a submission, or one task of a refresh."""

    at: float  # time of submission, or of the start
    user: str | None
    workflow: str
    task: str  # or the action's name
    submission: int | None
    verdict: str | None
    run: int | None
    state: RunState | None  # of the run
    seconds: float  # of execution
    saved_seconds: float  # seconds of computation saved by reuse
    bytes: int  # produced


@dataclass(frozen=True, slots=True)
class UsagePeriod:
    """A time range, and filters by user, workflow and task; None matches all."""

    since: float
    until: float
    user: str | None = None
    workflow: str | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class UsageFigures:
    """Usage within a minute, hour, day, week or month, in total or of one user, workflow or task."""

    begin: float
    group: str | None = None  # None: the total
    submissions: int = 0
    actions: int = 0
    computed: int = 0  # actions that were run
    hits: int = 0  # actions whose result existed, was being computed, or was not needed
    refreshes: int = 0  # of single tables: a run of two tasks counts twice
    failed: int = 0  # actions and refreshes
    seconds: float = 0.0  # of computation
    saved_seconds: float = 0.0  # seconds of computation that were saved
    bytes: int = 0  # written

    @property
    def hit_rate(self) -> float:
        return self.hits / self.actions if self.actions else 0.0

    def __add__(self, other: UsageFigures) -> UsageFigures:
        """Return the sum, with the beginning and the name of the first."""
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in COUNTED})


COUNTED = tuple(field.name for field in fields(UsageFigures))[2:]


@dataclass(frozen=True, slots=True)
class UsageTally:
    """The totals of an expired hour for one user, workflow and task. No task: of submissions."""

    user: str | None
    workflow: str
    task: str | None
    figures: UsageFigures
