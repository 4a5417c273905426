"""The start time of a session, which is not charged to the runs on it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from unittest.mock import MagicMock

import pytest

from tidemill.spark.engine import SparkEngine


def test_the_start_of_a_session_is_counted_once_for_several_waiting_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    now, started, barrier = 0.0, 0, Barrier(3)

    def session() -> Any:
        nonlocal now, started
        now, started = now + 46.0, started + 1
        return MagicMock()

    monkeypatch.setattr("tidemill.spark.engine.monotonic", lambda: now)
    engine = SparkEngine(session, str)
    assert engine.start_seconds == 0.0

    def wait(_: int) -> object:
        barrier.wait()
        return engine.spark

    with ThreadPoolExecutor(3) as threads:
        assert len(set(threads.map(wait, range(3)))) == 1
    assert (started, engine.start_seconds) == (1, 46.0)
