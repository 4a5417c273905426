"""Runs an action in another thread at a step of this one, to test how the two interleave."""

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
    """Runs an action in another thread at the n-th step of this one: a transaction's end or a writer's statement.

    This thread continues once the action is done or waits for a lock of this thread.
    """

    def __init__(self, step_number: int, action: Action, pool: ThreadPoolExecutor, watch: Connection) -> None:
        self._remaining = step_number
        self._action = action
        self._pool = pool
        self._watch = watch
        self._own_thread = threading.get_ident()
        self.other: Future[object] | None = None

    def on_statement(self, connection: Connection, *_rest: object) -> None:
        if _is_writer(connection):
            self.on_step(connection)

    def on_step(self, connection: Connection) -> None:
        if threading.get_ident() != self._own_thread or self.other is not None:
            return
        self._remaining -= 1
        if self._remaining == 0:
            self.other = self._pool.submit(self._action)  # from here on `on_step` does nothing
            while not self.other.done() and not self._is_waiting(connection):
                pass

    def _is_waiting(self, connection: Connection) -> bool:
        if connection.dialect.name == "sqlite":
            return _is_writer(connection)
        return bool(self._watch.execute(_WAITING).scalar_one())


def _is_writer(connection: Connection) -> bool:
    return "BEGIN IMMEDIATE" in connection.get_execution_options().values()


@contextmanager
def run_between(step_number: int, action: Action, watch: Connection) -> Iterator[Between]:
    """Ends when both threads are done."""
    with ThreadPoolExecutor(1) as pool:
        interleaving = Between(step_number, action, pool, watch)
        ends = [(end, interleaving.on_step) for end in ("begin", "commit", "rollback")]
        listeners = [*ends, ("before_cursor_execute", interleaving.on_statement)]
        for name, listener in listeners:
            event.listen(Engine, name, listener)
        try:
            yield interleaving
        finally:
            for name, listener in listeners:
                event.remove(Engine, name, listener)


@pytest.fixture
def watch(url: str) -> Iterator[Connection]:
    """A separate connection that observes waiting sessions."""
    engine = build_engine(url).execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()
