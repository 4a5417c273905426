"""The start time of a session, which is not charged to the runs on it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from unittest.mock import MagicMock

import pytest

from tidemill.ports.engine import get_start_wait
from tidemill.spark.engine import SparkEngine


def test_each_thread_is_charged_for_its_own_wait_for_the_start_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    now, started, barrier = 0.0, 0, Barrier(3)

    def session() -> Any:
        nonlocal now, started
        now, started = now + 46.0, started + 1
        return MagicMock()

    monkeypatch.setattr("tidemill.spark.engine.monotonic", lambda: now)
    engine, before = SparkEngine(session, str), get_start_wait().seconds

    def wait(_: int) -> tuple[object, float]:
        barrier.wait()
        return engine.spark, get_start_wait().seconds

    with ThreadPoolExecutor(3) as threads:
        sessions, waits = zip(*threads.map(wait, range(3)), strict=True)
    assert (started, len(set(sessions))) == (1, 1)
    assert 46.0 in waits
    assert set(waits) <= {0.0, 46.0}
    assert get_start_wait().seconds == before  # this thread did not wait
