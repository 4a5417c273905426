"""What an action costs: seconds, CPU seconds and memory of this process and all it started, Spark's JVM included."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

import psutil  # type: ignore[import-untyped]

INTERVAL = 0.1
"""Seconds between two looks at the memory: often enough for actions of a second, seldom enough to cost nothing."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one action took. Memory that processes share is counted once for each of them."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def measured(action: Callable[[], object]) -> Cost:
    """Do it, and say what it took."""
    before = _cpu_seconds()
    with PeakMemory() as memory:
        began = time.perf_counter()
        action()
        seconds = time.perf_counter() - began
    return Cost(seconds, _cpu_seconds() - before, memory.megabytes)


class PeakMemory:
    """The most memory that was resident while the block ran, as a thread saw it that looks now and then."""

    def __init__(self, interval: float = INTERVAL) -> None:
        self.megabytes = 0.0
        self._interval = interval
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._done.wait(self._interval):
            self._look()

    def _look(self) -> None:
        self.megabytes = max(self.megabytes, _resident_bytes() / 2**20)


def _cpu_seconds() -> float:
    """What all processes have used so far. Those that ended count through the parent that waited for them."""
    total = 0.0
    for process in _processes():
        with _perhaps_ended():
            used = process.cpu_times()
            total += used.user + used.system + used.children_user + used.children_system
    return total


def _resident_bytes() -> int:
    total = 0
    for process in _processes():
        with _perhaps_ended():
            total += process.memory_info().rss
    return total


def _processes() -> list[psutil.Process]:
    this = psutil.Process()
    return [this, *this.children(recursive=True)]


@contextmanager
def _perhaps_ended() -> Iterator[None]:
    """A process may end between being listed and being asked."""
    try:
        yield
    except psutil.NoSuchProcess:
        return
