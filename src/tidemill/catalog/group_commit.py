"""Transactions of several threads as one, where the database takes one writer at a time.

A commit waits for the disk. While one thread's does, others queue up; the next takes all that wait into one
transaction, each behind a savepoint of its own: what one of them raises undoes its own work alone.
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
    """Runs work in transactions of an engine; whoever comes first does the work of all who wait."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writing = threading.Lock()
        self._queue: deque[_PendingWork[Any]] = deque()

    def __call__(self, work: Work[T]) -> T:
        mine = _PendingWork(work)
        self._queue.append(mine)
        with self._writing:
            if not mine.done.done():
                self._run_group(self._drain_queue())
        return mine.done.result()

    def _drain_queue(self) -> list[_PendingWork[Any]]:
        """Everything that waits, the caller's own included: nobody else takes anything while it holds the lock."""
        return [self._queue.popleft() for _ in range(len(self._queue))]

    def _run_group(self, group: list[_PendingWork[Any]]) -> None:
        try:
            if len(group) == 1 or not self._run_together(group):
                for one in group:
                    self._run_alone(one)
        except BaseException as error:  # this thread is to end: nobody may wait for it for ever
            for one in group:
                if not one.done.done():
                    one.done.set_exception(error)
            raise

    def _run_alone(self, one: _PendingWork[Any]) -> None:
        try:
            with self._engine.begin() as connection:
                result = one.work(connection)
        except Exception as error:
            one.done.set_exception(error)
        else:
            one.done.set_result(result)

    def _run_together(self, group: list[_PendingWork[Any]]) -> bool:
        """False if the database refused: then nothing was done, and each has to try for itself."""
        try:
            with self._engine.begin() as connection:
                results = [_run_in_savepoint(connection, one.work) for one in group]
        except DBAPIError:
            return False
        for one, (result, error) in zip(group, results, strict=True):
            if error is None:
                one.done.set_result(result)
            else:
                one.done.set_exception(error)
        return True


def _run_in_savepoint(connection: Connection, work: Work[T]) -> tuple[T | None, Exception | None]:
    try:
        with connection.begin_nested():
            return work(connection), None
    except DBAPIError:
        raise
    except Exception as error:
        return None, error
