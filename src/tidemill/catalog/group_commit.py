"""Group commit: one transaction for the work of several threads, where the database allows one writer at a time.

A commit waits for the disk. Meanwhile other threads queue up; the next one runs all queued work in one transaction,
each behind a separate savepoint: an exception of one undoes only its own work.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

T = TypeVar("T")
Work = Callable[[Connection], T]


@dataclass(slots=True)
class _PendingWork(Generic[T]):
    work: Work[T]
    done: Future[T] = field(default_factory=Future)


class GroupCommit:
    """Runs work in transactions of an engine; the first thread in the queue runs the work of all queued threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._write_lock = threading.Lock()
        self._queue: deque[_PendingWork[Any]] = deque()

    def __call__(self, work: Work[T]) -> T:
        pending = _PendingWork(work)
        self._queue.append(pending)
        with self._write_lock:
            if not pending.done.done():
                self._run_group(self._drain_queue())
        return pending.done.result()

    def _drain_queue(self) -> list[_PendingWork[Any]]:
        """All queued work, the caller's included. The caller holds the lock, so no other thread drains the queue."""
        return [self._queue.popleft() for _ in range(len(self._queue))]

    def _run_group(self, group: list[_PendingWork[Any]]) -> None:
        try:
            if len(group) == 1 or not self._run_together(group):
                for pending in group:
                    self._run_alone(pending)
        except BaseException as error:  # this thread is ending: others must not wait for it forever
            for pending in group:
                if not pending.done.done():
                    pending.done.set_exception(error)
            raise

    def _run_alone(self, pending: _PendingWork[Any]) -> None:
        try:
            with self._engine.begin() as connection:
                result = pending.work(connection)
        except Exception as error:
            pending.done.set_exception(error)
        else:
            pending.done.set_result(result)

    def _run_together(self, group: list[_PendingWork[Any]]) -> bool:
        """Run the group in one transaction; False if the database rejected it: then each must run alone."""
        try:
            with self._engine.begin() as connection:
                results = [_run_in_savepoint(connection, pending.work) for pending in group]
        except DBAPIError:
            return False
        for pending, (result, error) in zip(group, results, strict=True):
            if error is None:
                pending.done.set_result(result)
            else:
                pending.done.set_exception(error)
        return True


def _run_in_savepoint(connection: Connection, work: Work[T]) -> tuple[T | None, Exception | None]:
    try:
        with connection.begin_nested():
            return work(connection), None
    except DBAPIError:
        raise
    except Exception as error:
        return None, error
