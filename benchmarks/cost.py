"""Cost of an action: seconds, CPU seconds and memory of this process and its children, including Spark's JVM."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

import psutil  # type: ignore[import-untyped]

INTERVAL = 0.1
"""Seconds between two samples of the memory: short against actions of a second, and with negligible cost."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one action. Memory that processes share is counted once for each of them."""

    seconds: float
    cpu_seconds: float
    peak_mb: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.seconds + other.seconds, self.cpu_seconds + other.cpu_seconds, max(self.peak_mb, other.peak_mb)
        )


def measure_cost(action: Callable[[], object]) -> Cost:
    """Run an action and measure its cost."""
    before = _read_cpu_seconds()
    with PeakMemory() as memory:
        began = time.perf_counter()
        action()
        seconds = time.perf_counter() - began
    return Cost(seconds, _read_cpu_seconds() - before, memory.megabytes)


class PeakMemory:
    """Peak resident memory while the block ran, sampled by a thread."""

    def __init__(self, interval: float = INTERVAL) -> None:
        self.megabytes = 0.0
        self._interval = interval
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._sample_memory()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self._sample_memory()

    def _sample_until_stopped(self) -> None:
        while not self._done.wait(self._interval):
            self._sample_memory()

    def _sample_memory(self) -> None:
        self.megabytes = max(self.megabytes, _read_resident_bytes() / 2**20)


def _read_cpu_seconds() -> float:
    """CPU seconds of all processes so far; ended processes are included in the parent that waited for them."""
    total = 0.0
    for process in _list_processes():
        with _ignore_ended_process():
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _read_resident_bytes() -> int:
    total = 0
    for process in _list_processes():
        with _ignore_ended_process():
            total += process.memory_info().rss
    return total


def _list_processes() -> list[psutil.Process]:
    this = psutil.Process()
    return [this, *this.children(recursive=True)]


@contextmanager
def _ignore_ended_process() -> Iterator[None]:
    """Skip a process that ended after it was listed."""
    try:
        yield
    except psutil.NoSuchProcess:
        return
