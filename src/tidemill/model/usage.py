"""What was done in the past, as far as figures go, and which part of it is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.model.run import RunState


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """One action of a submission; or one task of a refresh, which nobody submitted."""

    at: float  # when it was submitted, or began
    user: str | None
    workflow: str
    task: str  # or the action's name
    submission: int | None
    verdict: str | None
    run: int | None
    state: RunState | None  # of the run
    seconds: float  # that it took
    saved: float  # seconds that need not be computed
    bytes: int  # made


@dataclass(frozen=True, slots=True)
class UsagePeriod:
    """From one moment to another, and of whom; None: of all."""

    since: float
    until: float
    user: str | None = None
    workflow: str | None = None
    task: str | None = None
