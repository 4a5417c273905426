"""The catalog's database: snapshots to read from, and atomic transactions.

The classes of the catalog, one for each noun, are made of methods that run in either of them:

    @in_transaction
    def kill(self, tx: Transaction, run: int) -> Run: ...

is called as `catalog.runs.kill(5)`.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from tidemill.catalog.engine import (
    derive_read_engine,
    derive_write_engine,
    is_collision,
    is_single_writer,
    read_database_time,
    translate_errors,
)
from tidemill.catalog.transaction import Transaction
from tidemill.model.submission import ExpiredHistory
from tidemill.ports.catalog import Clock
from tidemill.ports.records import RunExpiryCounts

_MAX_ATTEMPTS = 10
_MAX_PAUSE = 0.05  # seconds before the retry of a transaction that collided

P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[[Connection], T]


class Database:
    """A catalog's database. It may be used from several threads."""

    def __init__(self, engine: Engine, clock: Clock | None = None) -> None:
        """`clock` replaces the database's clock."""
        self.engine = engine
        self.clock = clock
        self._read_engine = derive_read_engine(engine)
        write_engine = derive_write_engine(engine)
        self._write: Callable[[Work[Any]], Any] = (
            GroupCommit(write_engine) if is_single_writer(engine) else partial(_run_in_transaction, write_engine)
        )

    @contextmanager
    def open_snapshot(self) -> Iterator[Connection]:
        """A connection whose statements all see the same state of the catalog."""
        with translate_errors(self.engine), self._read_engine.connect() as connection:
            yield connection

    def read_time(self) -> float:
        with self.open_snapshot() as connection:
            return self.read_time_with(connection)

    def read_time_with(self, connection: Connection) -> float:
        return read_database_time(connection) if self.clock is None else self.clock()

    def run_transaction(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` in one atomic transaction; retry it if it collided with another one."""
        with translate_errors(self.engine):
            for _ in range(_MAX_ATTEMPTS - 1):
                try:
                    return self._attempt_transaction(work)
                except DBAPIError as error:
                    if not is_collision(error):
                        raise
                    time.sleep(random.uniform(0, _MAX_PAUSE))
            return self._attempt_transaction(work)

    def _attempt_transaction(self, work: Callable[[Transaction], T]) -> T:
        def run_work(connection: Connection) -> T:
            # The time is read after the write lock is acquired: waiting for it may outlast a lease.
            tx = Transaction(connection, self.read_time_with(connection))
            result = work(tx)
            tx.write_events()
            return result

        committed: T = self._write(run_work)
        return committed


def _run_in_transaction(engine: Engine, work: Work[T]) -> T:
    with engine.begin() as connection:
        return work(connection)


class CatalogPart:
    """The base of the classes that implement the ports."""

    def __init__(self, database: Database) -> None:
        self.database = database


Part = TypeVar("Part", bound=CatalogPart)


def in_snapshot(method: Callable[Concatenate[Part, Connection, P], T]) -> Callable[Concatenate[Part, P], T]:
    """Run a method with a connection to one snapshot of the catalog."""

    @wraps(method)
    def read(self: Part, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.database.open_snapshot() as connection:
            return method(self, connection, *args, **kwargs)

    return read


def in_transaction(method: Callable[Concatenate[Part, Transaction, P], T]) -> Callable[Concatenate[Part, P], T]:
    """Run a method in one atomic transaction; it may be called several times, if the transaction collides."""

    @wraps(method)
    def change(self: Part, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.database.run_transaction(lambda tx: method(self, tx, *args, **kwargs))

    return change


Counts = TypeVar("Counts", int, ExpiredHistory, RunExpiryCounts)


def repeat_batches(expire_batch: Callable[[], Counts], is_full: Callable[[Counts], bool]) -> Counts:
    """Expire history in batches, each in a separate transaction, until one is not full; returns the sum."""
    expired = batch = expire_batch()
    while is_full(batch):
        batch = expire_batch()
        expired += batch
    return expired


@dataclass(slots=True)
class _PendingWork(Generic[T]):
    work: Work[T]
    done: Future[T] = field(default_factory=Future)


class GroupCommit:
    """Runs work in transactions of a database that allows one writer at a time.

    A commit waits for the disk. Meanwhile other threads queue up; the next one runs all queued work in one transaction,
    each behind a separate savepoint: an exception of one undoes only its own work.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._write_lock = threading.Lock()
        self._queue: deque[_PendingWork[Any]] = deque()

    def __call__(self, work: Work[T]) -> T:
        pending = _PendingWork(work)
        self._queue.append(pending)
        with self._write_lock:
            if not pending.done.done():
                self._run_group([self._queue.popleft() for _ in range(len(self._queue))])
        return pending.done.result()

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
            pending.done.set_result(_run_in_transaction(self._engine, pending.work))
        except Exception as error:
            pending.done.set_exception(error)

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
