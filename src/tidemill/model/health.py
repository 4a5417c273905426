"""The health of what a server depends on, and the back-off with which it is restarted.

A restart follows at once, then after growing delays, and finally never.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """Whether an engine can run tasks; if not, the reason, and the time until a restart."""

    problem: str | None = None
    retry_in: float = 0.0  # seconds
    has_given_up: bool = False  # restarts failed too often, and there will be no other
    degradation: str | None = None  # why it has fewer resources than it should have, although it can run tasks


HEALTHY = EngineHealth()


RETRY_SECONDS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each restart, by the number of losses in a row; after one more loss it gives up."""

STABLE_SECONDS = 60.0
"""Seconds of uptime after which a loss counts as the first again."""


class RestartPolicy:
    """Counts the losses of a session in a row. A failed start is a loss, too.

    >>> restarts = RestartPolicy(clock=lambda: 0.0)
    >>> restarts.record_loss("gone")
    >>> restarts.report_health()
    EngineHealth(problem='gone', retry_in=0.0, has_given_up=False, degradation=None)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._losses = 0
        self._started: float | None = None
        self._next = 0.0  # the earliest time of the next start
        self._problem: str | None = None

    def record_start(self) -> None:
        self._started, self._problem = self._clock(), None

    def record_loss(self, reason: str) -> None:
        now = self._clock()
        if self._started is not None and now - self._started >= STABLE_SECONDS:
            self._losses = 0
        self._started, self._problem = None, reason
        self._next = now + RETRY_SECONDS[min(self._losses, len(RETRY_SECONDS) - 1)]
        self._losses += 1

    def report_health(self) -> EngineHealth:
        if self._problem is None:
            return HEALTHY
        wait = max(0.0, self._next - self._clock())
        return EngineHealth(self._problem, wait, has_given_up=self._losses > len(RETRY_SECONDS))
