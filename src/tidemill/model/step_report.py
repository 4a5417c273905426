"""Where a step of a task ran."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepReport:
    """Where a step ran and why; the rows and bytes that the driver then held, None if it held none."""

    step: str
    place: str
    reason: str
    seconds: float
    rows: int | None = None
    bytes: int | None = None
