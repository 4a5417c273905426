"""Transactions of several threads as one: each as if it were alone, but for the price."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, event, text

from tidemill.catalog.engine import build_engine, derive_write_engine
from tidemill.catalog.group_commit import GroupCommit


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = build_engine(f"sqlite:///{tmp_path / 'x.db'}")
    with made.begin() as connection:
        connection.execute(text("CREATE TABLE t (n INTEGER PRIMARY KEY)"))
    yield made
    made.dispose()


def kept(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT n FROM t ORDER BY n")).scalars())


def adding(n: int, error: Exception | None = None) -> Callable[[Connection], int]:
    def work(connection: Connection) -> int:
        connection.execute(text("INSERT INTO t VALUES (:n)"), {"n": n})
        if error is not None:
            raise error
        return n

    return work


def at_once(engine: Engine, works: list[Callable[[Connection], int]]) -> list[Future[int]]:
    """All of them wait behind one that holds the lock."""
    together = GroupCommit(derive_write_engine(engine))
    begun, go_on = threading.Event(), threading.Event()

    def first(_connection: Connection) -> int:
        begun.set()
        go_on.wait(30)
        return -1

    with ThreadPoolExecutor(len(works) + 1) as pool:
        pool.submit(together, first)
        begun.wait(30)
        futures = [pool.submit(together, work) for work in works]
        while len(together._queue) < len(works):
            pass
        go_on.set()
    return futures


def test_those_who_wait_share_a_commit(engine: Engine) -> None:
    commits: list[int] = []
    event.listen(engine, "commit", lambda _connection: commits.append(1))
    done = at_once(engine, [adding(n) for n in range(20)])
    assert [f.result() for f in done] == list(range(20))
    assert kept(engine) == list(range(20))
    assert len(commits) == 2


def test_what_one_raises_undoes_its_own_work_alone(engine: Engine) -> None:
    done = at_once(engine, [adding(1), adding(2, ValueError("no")), adding(3)])
    assert kept(engine) == [1, 3]
    assert [f.exception() is None for f in done] == [True, False, True]


def test_what_the_database_refuses_is_refused_to_one_alone(engine: Engine) -> None:
    done = at_once(engine, [adding(1), adding(1), adding(2)])
    assert kept(engine) == [1, 2]
    assert sorted(f.exception() is None for f in done) == [False, True, True]


def test_a_thread_that_is_to_end_leaves_nobody_waiting(engine: Engine) -> None:
    def interrupted(_connection: Connection) -> int:
        raise KeyboardInterrupt

    done = at_once(engine, [adding(1), interrupted, adding(2)])
    assert all(f.done() for f in done)
    assert kept(engine) == []
