"""Forgetting: old runs go with all that is said of them, and what anybody rests on stays."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select
from tests.catalog.driver import Driver

from tidemill.catalog import run_expiry
from tidemill.catalog.engine import build_engine
from tidemill.catalog.tables import blocks, events, files, logs, run_reads, runs
from tidemill.errors import GarbageCollected, NotFound
from tidemill.model.block import BlockKind
from tidemill.model.run import RunKind
from tidemill.ports.records import RunExpiryCounts


def counted(url: str) -> dict[str, int]:
    engine = build_engine(url)
    try:
        with engine.connect() as connection:
            tables = (runs, blocks, files, events, run_reads, logs)
            return {t.name: connection.execute(select(func.count()).select_from(t)).scalar_one() for t in tables}
    finally:
        engine.dispose()


def replaced(driver: Driver) -> None:
    """Whole new content, so that what was before can go."""
    driver.insert(kind=BlockKind.BASE)
    head = driver.head()
    driver.catalog.collect_blocks(b.id for b in driver.catalog.list_filled_blocks("a") if 0 < b.seq < head)
    driver.purge()
    elsewhere(driver)


def elsewhere(driver: Driver) -> None:
    """Something else happens: the run of the newest event is never forgotten."""
    driver.catalog.kill_run(driver.request(RunKind.INSERT, "b"))


def test_only_the_newest_runs_are_remembered(driver: Driver) -> None:
    for _ in range(5):
        replaced(driver)
    old = driver.catalog.list_runs(subject="a")
    assert driver.catalog.list_overfull_subjects(["copy", "b", "a"], keep=4) == ["a", "b"]
    assert (
        driver.catalog.list_overfull_subjects(["a", "b"], keep=5)
        == driver.catalog.list_overfull_subjects([], keep=1)
        == []
    )
    assert driver.catalog.expire_runs("a", keep=2) == RunExpiryCounts(3, 3)
    assert [r.id for r in driver.catalog.list_runs(subject="a")] == [r.id for r in old[:2]]
    assert [b.seq for b in driver.catalog.list_blocks("a")] == [5, 4, 0]
    assert driver.catalog.expire_runs("a", keep=2) == RunExpiryCounts()
    assert driver.catalog.read_channel("a").head.seq == 5


def test_the_catalog_stays_as_small_as_its_history(driver: Driver, url: str) -> None:
    sizes = []
    for _ in range(12):
        replaced(driver)
        driver.run_flow()
        driver.catalog.collect_blocks(
            b.id for b in driver.catalog.list_filled_blocks("d") if 0 < b.seq < driver.head("d")
        )
        driver.purge()
        elsewhere(driver)
        for subject in ("a", "b", "copy"):
            driver.catalog.expire_runs(subject, keep=3)
        sizes.append(counted(url))
    assert sizes[-1] == sizes[-2] == sizes[5]


def test_runs_whose_blocks_can_be_read_stay(driver: Driver) -> None:
    for _ in range(3):
        driver.insert()
    assert driver.catalog.expire_runs("a", keep=1) == RunExpiryCounts()
    driver.compact("a", 3)
    driver.catalog.collect_blocks(b.id for b in driver.catalog.list_filled_blocks("a") if 0 < b.seq < 3)
    assert driver.catalog.expire_runs("a", keep=1) == RunExpiryCounts(), "their files are still to be purged"
    driver.catalog.purge_blocks()
    elsewhere(driver)
    assert driver.catalog.expire_runs("a", keep=1) == RunExpiryCounts(), "their files are still to be removed"
    driver.purge()
    elsewhere(driver)
    assert driver.catalog.expire_runs("a", keep=1) == RunExpiryCounts(2, 2)


def test_runs_that_have_not_ended_stay(driver: Driver) -> None:
    ready, running = driver.request(), driver.open_insert("a")
    for _ in range(2):
        driver.catalog.kill_run(driver.request())
    elsewhere(driver)
    assert driver.catalog.expire_runs("a", keep=1) == RunExpiryCounts(1, 0)
    driver.catalog.kill_run(ready)
    driver.catalog.kill_run(running.run.id)
    driver.purge()
    driver.insert("b")
    assert driver.catalog.expire_runs("a", keep=1) == RunExpiryCounts(2, 1)


def test_the_last_finished_run_of_a_flow_says_how_far_it_got(driver: Driver) -> None:
    driver.insert()
    claim = driver.open_flow()
    driver.commit(claim)
    driver.insert("b")
    for _ in range(3):
        driver.catalog.kill_run(driver.request(RunKind.FLOW, "copy"))
    driver.insert("b")
    driver.catalog.expire_runs("copy", keep=1)
    assert claim.run.id in [r.id for r in driver.catalog.list_runs(subject="copy")]


def test_what_is_forgotten_is_said_to_be(driver: Driver) -> None:
    first = driver.insert(kind=BlockKind.BASE)
    for _ in range(3):
        replaced(driver)
    driver.catalog.expire_runs("a", keep=1)
    with pytest.raises(NotFound, match=f"block {first.id} has expired.*history"):
        driver.catalog.read_block(first.id)
    with pytest.raises(NotFound, match=f"run {first.run} has expired.*history"):
        driver.catalog.read_run(first.run or 0)


def test_an_older_point_never_passes_for_a_forgotten_one(driver: Driver) -> None:
    first = driver.insert(kind=BlockKind.BASE)
    for _ in range(3):
        replaced(driver)
    driver.catalog.expire_runs("a", keep=1)
    with pytest.raises(GarbageCollected, match="history up to 3 has expired"):
        driver.catalog.read_position("a", seq=2)
    with pytest.raises(GarbageCollected, match="history up to 3 has expired"):
        driver.catalog.read_position("a", version=first.version)
    assert driver.catalog.read_position("a", seq=0).seq == 0
    assert driver.catalog.read_position("a", seq=4).seq == 4


def test_numbers_are_never_given_twice(driver: Driver) -> None:
    """The newest event tells of the oldest block: forgetting it would give its number to the next event."""
    old = driver.insert()
    for _ in range(3):
        driver.insert(kind=BlockKind.BASE)
    driver.catalog.collect_blocks([old.id])
    driver.purge()
    last = driver.catalog.list_events(limit=10_000)[-1].id
    driver.catalog.expire_runs("a", keep=1)
    driver.insert()
    assert next(e.kind for e in driver.catalog.list_events(after=last)) == "run.requested"


def test_a_great_deal_is_forgotten_a_few_at_a_time(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_expiry, "BATCH_SIZE", 2)
    for _ in range(8):
        replaced(driver)
    assert driver.catalog.expire_runs("a", keep=1) == RunExpiryCounts(7, 7)
