"""A catalog whose connection is lost at a transaction that the test chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from tidemill.catalog import SqlCatalog

T = TypeVar("T")
Work = Callable[[Connection], T]


class Outage:
    """Cuts a catalog off at one of its transactions: before the commit, or after it and before the answer.

    After that, every read and write fails until `end`.
    """

    def __init__(self, catalog: SqlCatalog, transaction: int, *, committed: bool) -> None:
        self._transaction = transaction
        self._committed = committed
        self._count = 0
        self.down = False
        self._write: Callable[[Work[Any]], Any] = catalog.database._write
        self._read = catalog.database.open_snapshot
        self._database = catalog.database
        self._database._write = self._write_or_fail  # type: ignore[method-assign,assignment]
        self._database.open_snapshot = self._read_or_fail  # type: ignore[method-assign]

    def end(self) -> None:
        self._database._write = self._write  # type: ignore[method-assign]
        self._database.open_snapshot = self._read  # type: ignore[method-assign]

    def _write_or_fail(self, work: Work[T]) -> T:
        number, self._count = self._count, self._count + 1
        if not self.down and number == self._transaction:
            self.down = True
            if self._committed:
                self._write(work)
        if self.down:
            raise _build_error()
        result: T = self._write(work)
        return result

    @contextmanager
    def _read_or_fail(self) -> Iterator[Connection]:
        with self._read() as connection:  # it translates errors to Tidemill's
            if self.down:
                raise _build_error()
            yield connection


def _build_error() -> OperationalError:
    return OperationalError("COMMIT", None, Exception("server closed the connection unexpectedly"))
