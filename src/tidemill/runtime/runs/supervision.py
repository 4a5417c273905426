"""Runs work in a thread that can be abandoned on a time limit, a lost lease, or an interrupt."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from time import monotonic
from typing import TypeVar

from tidemill.errors import RunKilled, TimeLimitExceeded
from tidemill.ports.engine import get_start_wait


class WorkTimer:
    """Measures the seconds of this thread's work, without those for which it waited for the engine to start."""

    def __init__(self) -> None:
        self._wait = get_start_wait()
        self._began = self._read_clock()

    @property
    def elapsed_seconds(self) -> float:
        return self._read_clock() - self._began

    def _read_clock(self) -> float:
        return monotonic() - self._wait.seconds


T = TypeVar("T")

WORK_THREAD = "tidemill-work"
"""The name of the threads of work; one that exists after its run was abandoned."""

_POLL_SECONDS = 0.05
"""Seconds between checks whether to stop the work; the end of the work is noticed at once."""

_KILLED = "the run was killed, or another process took it over"

_STOP_SECONDS = 10.0
"""Seconds that stopped work has to end before its thread is abandoned."""


def run_supervised(
    function: Callable[[], T], *, limit: float | None, lost: threading.Event, stop: Callable[[], None]
) -> T:
    """Return the function's result; stop and abandon it after `limit` seconds, or when `lost` is set.

    Work that ignores `stop` continues in its thread: it can no longer commit, so it does no harm.
    """
    work: Future[T] = Future()
    get_start_wait()  # the work continues this context, so its waits count as those of this thread
    arguments = (_run_work, function, work)
    threading.Thread(target=copy_context().run, args=arguments, name=WORK_THREAD, daemon=True).start()
    deadline = None if limit is None else time.monotonic() + limit
    try:
        while not wait([work], _POLL_SECONDS).done:
            if lost.is_set():
                raise RunKilled(_KILLED)
            if deadline is not None and time.monotonic() > deadline:
                raise TimeLimitExceeded(f"it ran longer than its time limit of {limit:g} s")
    except BaseException:
        _stop_work(work, stop)
        raise
    if work.exception() is not None and lost.is_set():  # its jobs were cancelled before the loop noticed
        raise RunKilled(_KILLED) from work.exception()
    return work.result()


def _run_work(function: Callable[[], T], work: Future[T]) -> None:
    try:
        work.set_result(function())
    except BaseException as error:
        work.set_exception(error)


def _stop_work(work: Future[T], stop: Callable[[], None]) -> None:
    """Call `stop` repeatedly: a job that is about to start cannot be cancelled before it has started."""
    deadline = time.monotonic() + _STOP_SECONDS
    stop()
    while not wait([work], _POLL_SECONDS).done and time.monotonic() < deadline:
        stop()
