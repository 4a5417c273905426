"""Does something in another thread at a step of this one, to try how two of them interleave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, Engine, event, text

from tidemill.catalog.engine import build_engine

Action = Callable[[], object]

_WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")


class Between:
    """Does something in another thread at the n-th step of this one: an end of a transaction, a statement of a writer.

    This thread goes on once that is done, or waits for what this one has locked.
    """

    def __init__(self, at: int, action: Action, pool: ThreadPoolExecutor, watch: Connection) -> None:
        self._left = at
        self._action = action
        self._pool = pool
        self._watch = watch
        self._mine = threading.get_ident()
        self.other: Future[object] | None = None

    def statement(self, connection: Connection, *_rest: object) -> None:
        if _writes(connection):
            self.step(connection)

    def step(self, connection: Connection) -> None:
        if threading.get_ident() != self._mine or self.other is not None:
            return
        self._left -= 1
        if self._left == 0:
            self.other = self._pool.submit(self._action)  # from here on `step` has nothing to do, for the watch neither
            while not self.other.done() and not self._waits(connection):
                pass

    def _waits(self, connection: Connection) -> bool:
        if connection.dialect.name == "sqlite":
            return _writes(connection)
        return bool(self._watch.execute(_WAITING).scalar_one())


def _writes(connection: Connection) -> bool:
    return "BEGIN IMMEDIATE" in connection.get_execution_options().values()


@contextmanager
def between(at: int, action: Action, watch: Connection) -> Iterator[Between]:
    """Ends when both are done."""
    with ThreadPoolExecutor(1) as pool:
        found = Between(at, action, pool, watch)
        ends = [(end, found.step) for end in ("begin", "commit", "rollback")]
        heard = [*ends, ("before_cursor_execute", found.statement)]
        for name, listener in heard:
            event.listen(Engine, name, listener)
        try:
            yield found
        finally:
            for name, listener in heard:
                event.remove(Engine, name, listener)


@pytest.fixture
def watch(url: str) -> Iterator[Connection]:
    """A connection of its own, to see who waits."""
    engine = build_engine(url).execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()
