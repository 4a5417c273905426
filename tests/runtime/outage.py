"""A catalog that is cut off at a moment of the test's choosing."""

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
    """Cuts a catalog off at one of its transactions: before it is sent, or after it was and before the answer comes.

    From then on nothing can be read or written, until `end`.
    """

    def __init__(self, catalog: SqlCatalog, at: int, *, committed: bool) -> None:
        self._at = at
        self._committed = committed
        self._count = 0
        self.down = False
        self._write: Callable[[Work[Any]], Any] = catalog._write
        self._read = catalog._open_connection
        self._catalog = catalog
        catalog._write = self._writing  # type: ignore[method-assign,assignment]
        catalog._open_connection = self._reading  # type: ignore[method-assign]

    def end(self) -> None:
        self._catalog._write = self._write  # type: ignore[method-assign]
        self._catalog._open_connection = self._read  # type: ignore[method-assign]

    def _writing(self, work: Work[T]) -> T:
        at, self._count = self._count, self._count + 1
        if not self.down and at == self._at:
            self.down = True
            if self._committed:
                self._write(work)
        if self.down:
            raise _cut_off()
        result: T = self._write(work)
        return result

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._read() as connection:  # it says what went wrong in Tidemill's words
            if self.down:
                raise _cut_off()
            yield connection


def _cut_off() -> OperationalError:
    return OperationalError("COMMIT", None, Exception("server closed the connection unexpectedly"))
