"""Supervised work: time limits, kills and errors."""

from __future__ import annotations

import threading

import pytest

from tidemill.errors import RunFailed, RunKilled, TimeLimitExceeded
from tidemill.runtime.runs.supervision import run_supervised


def test_results_and_errors_are_passed_on() -> None:
    lost = threading.Event()
    assert run_supervised(lambda: 42, limit=None, lost=lost, stop=lambda: None) == 42
    with pytest.raises(ZeroDivisionError):
        run_supervised(lambda: 1 // 0, limit=5, lost=lost, stop=lambda: None)


def test_work_is_stopped_at_its_time_limit_even_if_it_has_not_started_yet() -> None:
    """A stop request that comes before the work has started must be repeated."""
    stops: list[int] = []
    stopped = threading.Event()

    def stop() -> None:
        stops.append(1)
        if len(stops) >= 3:  # the first two requests come too early
            stopped.set()

    with pytest.raises(TimeLimitExceeded, match="time limit of 0.01 s"):
        run_supervised(lambda: stopped.wait(60), limit=0.01, lost=threading.Event(), stop=stop)
    assert stopped.is_set()


def test_work_is_stopped_when_the_run_is_lost() -> None:
    lost, stopped = threading.Event(), threading.Event()
    lost.set()
    with pytest.raises(RunKilled):
        run_supervised(lambda: stopped.wait(60), limit=None, lost=lost, stop=stopped.set)


def test_work_whose_jobs_were_cancelled_is_killed() -> None:
    """A lost lease cancels its jobs at once; the work may fail before the lease is checked."""
    lost = threading.Event()

    def fail() -> None:
        lost.set()
        raise RunFailed("job 310 was cancelled")

    with pytest.raises(RunKilled):
        run_supervised(fail, limit=None, lost=lost, stop=lambda: None)
