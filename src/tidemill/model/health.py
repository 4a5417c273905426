"""The health of an engine, and the back-off of its restarts: at once, after growing delays, and finally never.

Pure: the time, in seconds of a clock that never goes back, is an argument.
"""

from dataclasses import dataclass

RETRY_SECONDS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each restart, by the number of losses in a row; after one more loss there is none."""

STABLE_SECONDS = 60.0
"""Seconds of uptime after which a loss counts as the first again, and the engine is no longer degraded."""


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """Whether an engine can run tasks, and if it can, whether something is wrong with it nevertheless.

    >>> HEALTHY.is_ready, HEALTHY.reason
    (True, None)
    >>> EngineHealth("gone").is_ready, EngineHealth(degradation="it was lost twice").is_ready
    (False, True)
    """

    problem: str | None = None  # why it cannot run tasks now
    retry_in: float = 0.0  # seconds until a restart
    has_given_up: bool = False  # restarts failed too often, and there will be no other
    degradation: str | None = None  # why it runs tasks but may soon not be able to; without texts of errors

    @property
    def is_ready(self) -> bool:
        return self.problem is None

    @property
    def reason(self) -> str | None:
        """Why it is not healthy, for any caller; None if it is."""
        return self.degradation if self.is_ready else "Spark is not available; the server's log says why"


HEALTHY = EngineHealth()


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """Whether all servers of a project serve it, and all its workflows may grow."""

    reason: str | None = None  # None: it is healthy


class RestartPolicy:
    """Counts the losses of an engine in a row. A failed start is a loss, too.

    >>> restarts = RestartPolicy()
    >>> restarts.record_loss("gone", now=5.0)
    >>> restarts.report_health(now=5.0).problem
    'gone'
    >>> restarts.record_start(now=7.0)
    >>> restarts.report_health(now=8.0).degradation
    'it was lost 1 time in a row, and restarted 1 s ago'
    """

    def __init__(self) -> None:
        self._losses = 0
        self._started: float | None = None
        self._next = 0.0  # the earliest time of the next start
        self._problem: str | None = None  # of the last loss
        self._is_lost = False

    def record_start(self, now: float) -> None:
        self._started, self._is_lost = now, False

    def record_loss(self, reason: str, now: float) -> None:
        if self._is_stable(now):
            self._losses = 0
        self._started, self._problem, self._is_lost = None, reason, True
        self._next = now + RETRY_SECONDS[min(self._losses, len(RETRY_SECONDS) - 1)]
        self._losses += 1

    def report_health(self, now: float) -> EngineHealth:
        if self._is_lost:
            given_up = self._losses > len(RETRY_SECONDS)
            return EngineHealth(self._problem, max(0.0, self._next - now), has_given_up=given_up)
        if self._problem is None or self._is_stable(now):
            return HEALTHY
        return EngineHealth(degradation=self._describe_losses(now))

    def _is_stable(self, now: float) -> bool:
        return self._started is not None and now - self._started >= STABLE_SECONDS

    def _describe_losses(self, now: float) -> str:
        uptime, times = now - (self._started or now), "1 time" if self._losses == 1 else f"{self._losses} times"
        return f"it was lost {times} in a row, and restarted {uptime:.0f} s ago"
