"""When a lost session is restarted, and when no longer."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from tidemill.errors import EngineError, EngineLost, RunFailed
from tidemill.model.health import RETRY_SECONDS
from tidemill.spark.engine import SparkEngine
from tidemill.spark.session_loss import _is_session_gone


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_an_engine_that_cannot_restart_is_not_retried_constantly(clock: Clock) -> None:
    attempts = []

    def start() -> None:
        attempts.append(clock.now)
        raise EngineError("no memory")

    engine = SparkEngine(start, str, clock=clock)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="starting Spark: no memory"):
        engine.start()  # it never ran: the user has to correct that
    assert engine.report_health().problem is None
    engine._restart_policy.record_loss("gone", clock())
    for _ in range(100):
        with pytest.raises(EngineError):
            engine.start()
        clock.now += 1.0
    assert len(attempts) == 1 + len(RETRY_SECONDS)
    with pytest.raises(EngineLost, match="not started again: no memory"):
        engine.start()


class Code:
    """A gRPC status; the real classes are installed only with Spark Connect."""

    def __init__(self, name: str) -> None:
        self.name = name


class Remote(PySparkException):
    """An error as Spark Connect's client raises it."""

    __module__ = "pyspark.errors.exceptions.connect"

    def __init__(self, message: str, condition: str | None = None, code: str = "UNKNOWN") -> None:
        super().__init__(message=message)
        self._errorClass = condition
        self._code = Code(code)

    def getGrpcStatusCode(self) -> Code:  # noqa: N802 - as Spark calls it
        return self._code


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (Remote("failed to connect to all addresses", code="UNAVAILABLE"), True),
        (Remote("[INVALID_HANDLE.SESSION_CHANGED] The handle is invalid."), True),
        (Remote("x", "INVALID_HANDLE.SESSION_CLOSED"), True),
        (Remote("[INVALID_HANDLE.OPERATION_NOT_FOUND] x"), False),
        (Remote("no such column", code="INTERNAL"), False),
        (ConnectionRefusedError("a task's own service is UNAVAILABLE"), False),
        (RunFailed("NO_ACTIVE_SESSION"), False),
    ],
)
def test_errors_of_a_lost_remote_session_are_recognized(error: Exception, is_lost: bool) -> None:
    assert _is_session_gone(error) is is_lost
