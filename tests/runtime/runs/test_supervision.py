"""Work that can be given up."""

from __future__ import annotations

import threading

import pytest

from tidemill.errors import RunFailed, RunKilled, TimeLimitExceeded
from tidemill.runtime.runs.supervision import run_supervised


def test_results_and_errors_come_through() -> None:
    lost = threading.Event()
    assert run_supervised(lambda: 42, limit=None, lost=lost, stop=lambda: None) == 42
    with pytest.raises(ZeroDivisionError):
        run_supervised(lambda: 1 // 0, limit=5, lost=lost, stop=lambda: None)


def test_work_is_stopped_at_its_time_limit_even_if_it_has_not_started_yet() -> None:
    """A stop that comes before the work can hear it must be repeated."""
    stops: list[int] = []
    heard = threading.Event()

    def stop() -> None:
        stops.append(1)
        if len(stops) >= 3:  # the first two come too early
            heard.set()

    with pytest.raises(TimeLimitExceeded, match="time limit of 0.01 s"):
        run_supervised(lambda: heard.wait(60), limit=0.01, lost=threading.Event(), stop=stop)
    assert heard.is_set()


def test_work_is_given_up_when_the_run_is_lost() -> None:
    lost, stopped = threading.Event(), threading.Event()
    lost.set()
    with pytest.raises(RunKilled):
        run_supervised(lambda: stopped.wait(60), limit=None, lost=lost, stop=stopped.set)


def test_work_whose_jobs_were_cancelled_with_the_run_was_killed() -> None:
    """The lease cancels jobs as soon as it is lost; the work may then fail before anything looks at the lease."""
    lost = threading.Event()

    def cancelled() -> None:
        lost.set()
        raise RunFailed("job 310 was cancelled")

    with pytest.raises(RunKilled):
        run_supervised(cancelled, limit=None, lost=lost, stop=lambda: None)
