"""Supervised work: time limits, kills and errors."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidemill.errors import RunFailed, RunKilled, TimeLimitExceeded
from tidemill.ports.engine import get_start_wait
from tidemill.runtime.runs.supervision import WorkTimer, run_supervised


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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("tidemill.runtime.runs.supervision.monotonic", lambda: now[0])
    return now


def test_work_is_not_charged_for_its_own_wait_for_the_engine(clock: list[float]) -> None:
    def work() -> None:
        clock[0] += 46.0 + 7.0
        get_start_wait().seconds += 46.0

    timer = WorkTimer()
    run_supervised(work, limit=None, lost=threading.Event(), stop=lambda: None)
    assert timer.elapsed_seconds == 7.0


def test_work_is_charged_its_time_while_other_work_waits_for_the_engine(clock: list[float]) -> None:
    """Concurrent runs of a server: one starts Spark again, the other needs no Spark."""
    timer = WorkTimer()
    with ThreadPoolExecutor(1) as other:
        other.submit(run_supervised, start_engine, limit=None, lost=threading.Event(), stop=lambda: None).result()
    clock[0] += 7.0
    assert timer.elapsed_seconds == 7.0


def start_engine() -> None:
    get_start_wait().seconds += 46.0
