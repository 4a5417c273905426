"""Expiry: old runs are deleted with their events, reads and logs, unless something still needs them."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select
from tests.catalog.driver import Driver
from tests.databases import LONG_ON_POSTGRESQL

from tidemill.catalog import expiry
from tidemill.catalog.engine import build_engine
from tidemill.catalog.tables import blocks, events, files, logs, run_reads, runs
from tidemill.errors import GarbageCollected, NotFound
from tidemill.model.block import BlockKind
from tidemill.model.run import RunKind
from tidemill.ports.records import RunExpiryCounts


def count_rows(url: str) -> dict[str, int]:
    engine = build_engine(url)
    try:
        with engine.connect() as connection:
            tables = (runs, blocks, files, events, run_reads, logs)
            return {t.name: connection.execute(select(func.count()).select_from(t)).scalar_one() for t in tables}
    finally:
        engine.dispose()


def replace_content(driver: Driver) -> None:
    """Replace the content, so that the previous blocks can be collected."""
    driver.insert(kind=BlockKind.BASE)
    head = driver.head()
    driver.catalog.blocks.collect([b.id for b in driver.catalog.blocks.list_filled("a") if 0 < b.seq < head])
    driver.purge()
    record_other_event(driver)


def record_other_event(driver: Driver) -> None:
    """Record an event of another subject: the run of the newest event never expires."""
    driver.catalog.runs.kill(driver.request(RunKind.INSERT, "b"))


def test_only_the_newest_runs_are_retained(driver: Driver) -> None:
    for _ in range(5):
        replace_content(driver)
    old = driver.catalog.runs.list(subject="a")
    assert driver.catalog.runs.list_overfull_subjects(["copy", "b", "a"], retain=4) == ["a", "b"]
    assert (
        driver.catalog.runs.list_overfull_subjects(["a", "b"], retain=5)
        == driver.catalog.runs.list_overfull_subjects([], retain=1)
        == []
    )
    assert driver.catalog.runs.expire("a", retain=2) == RunExpiryCounts(3, 3)
    assert [r.id for r in driver.catalog.runs.list(subject="a")] == [r.id for r in old[:2]]
    assert [b.seq for b in driver.catalog.blocks.list("a")] == [5, 4, 0]
    assert driver.catalog.runs.expire("a", retain=2) == RunExpiryCounts()
    assert driver.catalog.channels.read("a").head.seq == 5


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
def test_the_size_of_the_catalog_is_bounded_by_the_history(driver: Driver, url: str) -> None:
    sizes = []
    for _ in range(12):
        replace_content(driver)
        driver.run_flow()
        driver.catalog.blocks.collect(
            [b.id for b in driver.catalog.blocks.list_filled("d") if 0 < b.seq < driver.head("d")]
        )
        driver.purge()
        record_other_event(driver)
        for subject in ("a", "b", "copy"):
            driver.catalog.runs.expire(subject, retain=3)
        sizes.append(count_rows(url))
    assert sizes[-1] == sizes[-2] == sizes[5]


def test_runs_with_readable_blocks_do_not_expire(driver: Driver) -> None:
    for _ in range(3):
        driver.insert()
    assert driver.catalog.runs.expire("a", retain=1) == RunExpiryCounts()
    driver.compact("a", 3)
    driver.catalog.blocks.collect([b.id for b in driver.catalog.blocks.list_filled("a") if 0 < b.seq < 3])
    assert driver.catalog.runs.expire("a", retain=1) == RunExpiryCounts(), "their files are not purged yet"
    driver.catalog.blocks.purge()
    record_other_event(driver)
    assert driver.catalog.runs.expire("a", retain=1) == RunExpiryCounts(), "their files are not removed yet"
    driver.purge()
    record_other_event(driver)
    assert driver.catalog.runs.expire("a", retain=1) == RunExpiryCounts(2, 2)


def test_unfinished_runs_do_not_expire(driver: Driver) -> None:
    ready, running = driver.request(), driver.open_insert("a")
    for _ in range(2):
        driver.catalog.runs.kill(driver.request())
    record_other_event(driver)
    assert driver.catalog.runs.expire("a", retain=1) == RunExpiryCounts(1, 0)
    driver.catalog.runs.kill(ready)
    driver.catalog.runs.kill(running.run.id)
    driver.purge()
    driver.insert("b")
    assert driver.catalog.runs.expire("a", retain=1) == RunExpiryCounts(2, 1)


def test_the_last_finished_run_of_a_flow_does_not_expire(driver: Driver) -> None:
    driver.insert()
    claim = driver.open_flow()
    driver.commit(claim)
    driver.insert("b")
    for _ in range(3):
        driver.catalog.runs.kill(driver.request(RunKind.FLOW, "copy"))
    driver.insert("b")
    driver.catalog.runs.expire("copy", retain=1)
    assert claim.run.id in [r.id for r in driver.catalog.runs.list(subject="copy")]


def test_expired_blocks_and_runs_are_reported_as_expired(driver: Driver) -> None:
    first = driver.insert(kind=BlockKind.BASE)
    for _ in range(3):
        replace_content(driver)
    driver.catalog.runs.expire("a", retain=1)
    with pytest.raises(NotFound, match=f"block {first.id} has expired.*history"):
        driver.catalog.blocks.read(first.id)
    with pytest.raises(NotFound, match=f"run {first.run} has expired.*history"):
        driver.catalog.runs.read(first.run or 0)


def test_an_expired_position_is_not_replaced_by_an_older_one(driver: Driver) -> None:
    first = driver.insert(kind=BlockKind.BASE)
    for _ in range(3):
        replace_content(driver)
    driver.catalog.runs.expire("a", retain=1)
    with pytest.raises(GarbageCollected, match="history up to 3 has expired"):
        driver.catalog.channels.read_position("a", seq=2)
    with pytest.raises(GarbageCollected, match="history up to 3 has expired"):
        driver.catalog.channels.read_position("a", version=first.version)
    assert driver.catalog.channels.read_position("a", seq=0).seq == 0
    assert driver.catalog.channels.read_position("a", seq=4).seq == 4


def test_event_ids_are_never_reused(driver: Driver) -> None:
    """The newest event belongs to the oldest block: expiring it would let the next event reuse its id."""
    old = driver.insert()
    for _ in range(3):
        driver.insert(kind=BlockKind.BASE)
    driver.catalog.blocks.collect([old.id])
    driver.purge()
    last = driver.catalog.events.list(limit=10_000)[-1].id
    driver.catalog.runs.expire("a", retain=1)
    driver.insert()
    assert next(e.kind for e in driver.catalog.events.list(after=last)) == "run.requested"


def test_many_runs_expire_in_batches(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "RUN_BATCH", 2)
    for _ in range(8):
        replace_content(driver)
    assert driver.catalog.runs.expire("a", retain=1) == RunExpiryCounts(7, 7)
