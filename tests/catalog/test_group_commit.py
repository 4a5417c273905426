"""Transactions of several threads in one commit: each behaves as if it were alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, event, text

from tidemill.catalog.database import GroupCommit
from tidemill.catalog.engine import build_engine, derive_write_engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = build_engine(f"sqlite:///{tmp_path / 'x.db'}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (n INTEGER PRIMARY KEY)"))
    yield engine
    engine.dispose()


def read_numbers(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT n FROM t ORDER BY n")).scalars())


def build_insert(n: int, error: Exception | None = None) -> Callable[[Connection], int]:
    def work(connection: Connection) -> int:
        connection.execute(text("INSERT INTO t VALUES (:n)"), {"n": n})
        if error is not None:
            raise error
        return n

    return work


def run_together(engine: Engine, works: list[Callable[[Connection], int]]) -> list[Future[int]]:
    """Run all works while they wait for one that holds the lock."""
    group_commit = GroupCommit(derive_write_engine(engine))
    lock_taken, release = threading.Event(), threading.Event()

    def first(_connection: Connection) -> int:
        lock_taken.set()
        release.wait(30)
        return -1

    with ThreadPoolExecutor(len(works) + 1) as pool:
        pool.submit(group_commit, first)
        lock_taken.wait(30)
        futures = [pool.submit(group_commit, work) for work in works]
        while len(group_commit._queue) < len(works):
            pass
        release.set()
    return futures


def test_waiting_transactions_share_a_commit(engine: Engine) -> None:
    commits: list[int] = []
    event.listen(engine, "commit", lambda _connection: commits.append(1))
    futures = run_together(engine, [build_insert(n) for n in range(20)])
    assert [f.result() for f in futures] == list(range(20))
    assert read_numbers(engine) == list(range(20))
    assert len(commits) == 2


def test_an_exception_rolls_back_only_its_own_work(engine: Engine) -> None:
    futures = run_together(engine, [build_insert(1), build_insert(2, ValueError("no")), build_insert(3)])
    assert read_numbers(engine) == [1, 3]
    assert [f.exception() is None for f in futures] == [True, False, True]


def test_a_database_error_fails_only_its_own_work(engine: Engine) -> None:
    futures = run_together(engine, [build_insert(1), build_insert(1), build_insert(2)])
    assert read_numbers(engine) == [1, 2]
    assert sorted(f.exception() is None for f in futures) == [False, True, True]


def test_an_interrupted_thread_leaves_no_thread_waiting(engine: Engine) -> None:
    def interrupt(_connection: Connection) -> int:
        raise KeyboardInterrupt

    futures = run_together(engine, [build_insert(1), interrupt, build_insert(2)])
    assert all(f.done() for f in futures)
    assert read_numbers(engine) == []
