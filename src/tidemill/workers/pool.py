"""The workers of a server: started ahead, watched, replaced when they end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from tidemill.errors import EngineError, EngineLost, WorkerFailed
from tidemill.model.health import EngineHealth, RestartPolicy
from tidemill.processes.process_tree import read_process_table
from tidemill.workers.process import WorkerProcess

log = logging.getLogger("tidemill.server")

WATCH_SECONDS = 0.25
"""Seconds between two measurements of the workers."""

SPARE_SECONDS = 300.0
"""Seconds without a call after which a worker beyond the pool's size ends."""

OnChange = Callable[[WorkerProcess], None]
StartWorker = Callable[[int, OnChange], WorkerProcess]
"""Starts a worker under a number that no other worker has."""


class WorkerPool:
    """Executes each call in a worker that executes nothing else meanwhile. Thread-safe.

    `size` workers are kept ready, and started one after the other; calls that find no free one start another. A worker
    that ends is replaced, with back-off if workers end again and again without a fault of users' code. `on_end` is
    called for each, before its call fails.
    """

    def __init__(self, start_worker: StartWorker, size: int, on_end: OnChange) -> None:
        self._start_worker = start_worker
        self._size = size
        self._on_end = on_end
        self._restarts = RestartPolicy()
        self._workers: list[WorkerProcess] = []
        self._changed = threading.Condition()
        self._waiting = 0  # calls without a worker
        self._stopping = False
        self._was_ready = False
        self._watch: threading.Thread | None = None

    def start(self) -> None:
        """Start the workers, and wait until the first can be called; raises `EngineError` if it cannot be started."""
        self._begin_watch()
        with self._changed:
            while not self._has_started():
                health = self._restarts.report_health(time.monotonic())
                if health.problem is not None and (health.has_given_up or not self._was_ready):
                    raise EngineError(health.problem)
                self._changed.wait(WATCH_SECONDS)

    def call(self, operation: str, *arguments: Any) -> Any:
        """Execute an operation in a worker; raises its error, or `WorkerFailed` if the worker ended."""
        return self._acquire_worker().call(operation, arguments)

    def abandon_calls(self, reason: str) -> None:
        """End all workers that execute a call."""
        for worker in list(self._workers):
            if worker.is_busy:
                worker.end(reason)

    def report_health(self) -> EngineHealth:
        """Whether a worker can be called, now or after running calls; until the first is ready, that it starts."""
        health = self._restarts.report_health(time.monotonic())
        if health.has_given_up:
            return health
        if self._has_started():
            return EngineHealth(degradation=health.degradation or (health.problem and "a worker process is missing"))
        return EngineHealth(health.problem or "the first worker process is starting", health.retry_in or WATCH_SECONDS)

    def _has_started(self) -> bool:
        return any(w.was_ready for w in list(self._workers))

    def list_processes(self) -> list[int]:
        return [w.pid for w in list(self._workers)]

    def stop(self) -> None:
        """End all workers."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for worker in list(self._workers):
            worker.end("the server ended")
        if self._watch is not None:
            self._watch.join()

    def _begin_watch(self) -> None:
        with self._changed:
            if self._watch is None and not self._stopping:
                self._watch = threading.Thread(target=self._watch_workers, name="tidemill-workers", daemon=True)
                self._watch.start()

    def _acquire_worker(self) -> WorkerProcess:
        self._begin_watch()
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            try:
                while (worker := self._find_ready()) is None:
                    health = self._restarts.report_health(time.monotonic())
                    if self._stopping:
                        raise WorkerFailed("the server ends")
                    if health.has_given_up:
                        raise EngineLost(f"no worker process can be started: {health.problem}")
                    self._changed.wait(WATCH_SECONDS)
                worker.is_ready = False
                return worker
            finally:
                self._waiting -= 1

    def _find_ready(self) -> WorkerProcess | None:
        return next((w for w in self._workers if w.is_ready), None)

    def _watch_workers(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                self._start_missing()
                self._changed.wait(WATCH_SECONDS)
            table = read_process_table()
            for worker in list(self._workers):
                worker.check(table)
            self._end_spare()

    def _start_missing(self) -> None:
        """Start a worker if one is missing, and no other is starting: several at once would delay the first."""
        is_missing = len(self._workers) < self._size or (self._waiting > 0 and self._find_ready() is None)
        is_starting = any(not w.was_ready for w in self._workers)
        if is_missing and not is_starting and not self._restarts.report_health(time.monotonic()).retry_in:
            try:
                self._workers.append(self._start_worker(self._find_free_number(), self._note_change))
            except OSError as error:
                reason = f"a worker process cannot be started: {error.strerror}"
                self._restarts.record_loss(reason, time.monotonic())

    def _find_free_number(self) -> int:
        used = {w.number for w in self._workers}
        return next(n for n in count(1) if n not in used)

    def _end_spare(self) -> None:
        spare = self._workers[self._size :]
        for worker in spare:
            if worker.is_ready and time.monotonic() - worker.idle_since > SPARE_SECONDS:
                with self._changed:
                    if not worker.is_ready:
                        continue
                    worker.is_ready = False
                    self._workers.remove(worker)
                worker.end("it was not needed any more")

    def _note_change(self, worker: WorkerProcess) -> None:
        if worker.has_ended:
            self._remove_ended(worker)
        with self._changed:
            if worker.is_ready:
                self._was_ready = True
                self._restarts.record_start(time.monotonic())
            self._changed.notify_all()

    def _remove_ended(self, worker: WorkerProcess) -> None:
        """Report the end of a worker, then free its number."""
        if self._stopping or worker not in self._workers:
            return
        log.warning("worker %d: %s", worker.number, worker.end_reason)
        self._on_end(worker)
        with self._changed:
            self._workers.remove(worker)
            if not worker.is_fault:
                self._restarts.record_loss(worker.end_reason or "it ended", time.monotonic())
