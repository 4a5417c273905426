"""Pinning beside a collection, at steps of either: a pin that succeeded holds, and one too late says so."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Connection, Engine, event, text
from tests.catalog.driver import COPY, Driver

from tidemill.catalog import SqlCatalog
from tidemill.catalog.engine import engine_for
from tidemill.errors import Conflict
from tidemill.model.block import Block, BlockState, Kind
from tidemill.ports import Engine as SparkLike
from tidemill.runtime.execute import Executor
from tidemill.runtime.janitor import Janitor
from tidemill.runtime.pins import pin
from tidemill.storage.local import LocalBlockStore

STRIDE = 1 if int(os.environ.get("TIDEMILL_CRASH_ROUNDS", "0")) else 5
"""Every step of either is for `make crash`."""

Opened = Callable[[], SqlCatalog]
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


def outcome(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Conflict as conflict:
        return conflict


def superseded(driver: Driver) -> Block:
    """A block that nobody needs any longer, made from others that nobody needs; `d` goes on without it."""
    driver.clock.now += 1
    driver.insert("a")
    (copied,) = driver.run_flow(COPY)
    driver.insert("a", kind=Kind.BASE)
    driver.run_flow(COPY)
    driver.compact("d", driver.head("d"))
    return copied


@pytest.fixture
def watch(url: str) -> Iterator[Connection]:
    """A connection of its own, to see who waits."""
    engine = engine_for(url).execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.mark.parametrize("first", ["pin", "collection"])
def test_a_pin_beside_a_collection_holds_or_is_refused(
    driver: Driver, opened: Opened, tmp_path: Path, watch: Connection, first: str
) -> None:
    pinning, collecting = opened(), opened()
    janitor = Janitor(Executor(collecting, LocalBlockStore(tmp_path), cast(SparkLike, None), "me"))
    seen: set[str] = set()
    for step in count(1, STRIDE):
        block = superseded(driver)
        actions = {"pin": lambda b=block: outcome(lambda: pin(pinning, b.id)), "collection": janitor.collect}
        (second,) = actions.keys() - {first}
        with between(step, actions[second], watch) as meanwhile:
            results = {first: actions[first]()}
        results[second] = meanwhile.other.result() if meanwhile.other else actions[second]()
        seen.add(checked(driver, janitor, block, results["pin"]))
        if meanwhile.other is None:
            break
    assert step > 15, "there are more steps than that"
    assert {"held", "too late"} <= seen


def checked(driver: Driver, janitor: Janitor, block: Block, pinned: set[int] | Conflict) -> str:
    """What became of the pin; all that it promised, or that it left no trace."""
    catalog = driver.catalog
    janitor.collect()  # neither does a later one take what is held
    if not isinstance(pinned, Conflict):
        assert catalog.block(block.id).pinned
        assert {catalog.block(b).state for b in pinned | {block.id}} == {BlockState.FILLED}
        catalog.unpin(block.id)
        janitor.collect()
        assert catalog.block(block.id).state is BlockState.COLLECTED
        return "held"
    assert not any(catalog.held(name) for name in "abd")
    assert str(pinned) in (
        f"block {block.id} is collected; only filled blocks can be pinned",
        f"some of what block {block.id} was made from was collected meanwhile; pin it again",
    )
    return "too late" if "is collected" in str(pinned) else "pin again"
