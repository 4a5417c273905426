"""Usage records of past work, and the filter that selects them."""

from __future__ import annotations

from dataclasses import dataclass

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
