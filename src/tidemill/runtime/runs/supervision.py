"""Runs work in a thread that can be abandoned on a time limit, a lost lease, or an interrupt."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

from tidemill.errors import RunKilled, TimeLimitExceeded
from tidemill.ports.engine import Engine


class WorkTimer:
    """Measures seconds since its creation, without the time in which the engine was starting.

    Whether a run finds the engine started is a matter of chance and not part of its cost.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._began = self._read_clock()

    @property
    def elapsed_seconds(self) -> float:
        return max(0.0, self._read_clock() - self._began)

    def _read_clock(self) -> float:
        return monotonic() - self._engine.start_seconds


T = TypeVar("T")

_POLL_SECONDS = 0.05
"""Seconds between checks whether to stop the work; the end of the work is noticed at once."""

_KILLED = "the run was killed, or another process took it over"

_STOP_SECONDS = 10.0
"""Seconds that stopped work has to end before its thread is abandoned."""


class _SupervisedWork(Generic[T]):
    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self.ended = threading.Event()
        self._result: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._result.append(self._function())
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()

    def get_result(self) -> T:
        if self.error is not None:
            raise self.error
        return self._result[0]


def run_supervised(
    function: Callable[[], T], *, limit: float | None, lost: threading.Event, stop: Callable[[], None]
) -> T:
    """Return the function's result; stop and abandon it after `limit` seconds, or when `lost` is set.

    Work that ignores `stop` continues in its thread: it can no longer commit, so it does no harm.
    """
    work = _SupervisedWork(function)
    threading.Thread(target=work.run, name="tidemill-work", daemon=True).start()
    deadline = None if limit is None else time.monotonic() + limit
    try:
        while not work.ended.wait(_POLL_SECONDS):
            if lost.is_set():
                raise RunKilled(_KILLED)
            if deadline is not None and time.monotonic() > deadline:
                raise TimeLimitExceeded(f"it ran longer than its time limit of {limit:g} s")
    except BaseException:
        _stop_work(work, stop)
        raise
    if work.error is not None and lost.is_set():  # its jobs were cancelled before the loop noticed
        raise RunKilled(_KILLED) from work.error
    return work.get_result()


def _stop_work(work: _SupervisedWork[T], stop: Callable[[], None]) -> None:
    """Call `stop` repeatedly: a job that is about to start cannot be cancelled before it has started."""
    deadline = time.monotonic() + _STOP_SECONDS
    stop()
    while not work.ended.wait(_POLL_SECONDS) and time.monotonic() < deadline:
        stop()
