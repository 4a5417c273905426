"""Removal of files in two steps: marking, removal when due, and neither for files in use."""

from __future__ import annotations

import pytest
from tests.catalog.driver import LEASE, Driver, build_insert_request

from tidemill.errors import NotFound
from tidemill.model.block import BlockKind
from tidemill.model.run import RunKind
from tidemill.model.store import GracePeriods, Removal, RemovalKind

GRACE = GracePeriods(blocks=10.0, orphans=100.0)


def list_due(driver: Driver) -> list[Removal]:
    return driver.catalog.files.list_due_removals(GRACE, 100)


def test_files_of_collected_blocks_are_due_after_their_grace_period(driver: Driver) -> None:
    old = driver.insert(kind=BlockKind.BASE)
    driver.insert(kind=BlockKind.BASE)
    driver.catalog.blocks.collect([old.id])
    (path,) = driver.catalog.blocks.purge()
    assert driver.catalog.files.list_marked() == {path}
    driver.clock.now += GRACE.blocks - 1
    assert list_due(driver) == []
    driver.clock.now += 1
    assert list_due(driver) == [Removal(path, RemovalKind.FILE)]
    driver.catalog.files.finish_removals([path])
    assert list_due(driver) == []
    (event,) = (e for e in driver.catalog.events.list(limit=1000) if e.kind == "files.removed")
    assert (event.subject, event.run, event.detail) == ("a", old.run, {"paths": 1})


@pytest.mark.parametrize("end", ["failed", "killed", "reclaimed"])
def test_the_directory_of_a_failed_attempt_is_due_after_the_orphan_retention(driver: Driver, end: str) -> None:
    claim = driver.open_insert(attempts=2)
    match end:
        case "failed":
            driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="no", retry_in=0)
        case "killed":
            driver.catalog.runs.kill(claim.run.id)
        case _:
            driver.clock.now += LEASE
            driver.catalog.runs.reclaim_expired()
    assert driver.catalog.files.list_marked() == {claim.directory}
    driver.clock.now += GRACE.orphans - 1
    assert list_due(driver) == []
    driver.clock.now += 1
    assert list_due(driver) == [Removal(claim.directory, RemovalKind.ATTEMPT)]
    (event,) = (e for e in driver.catalog.events.list(run=claim.run.id) if e.kind == "files.marked")
    assert event.detail == {"directory": claim.directory}


def test_runs_that_wrote_nothing_are_not_marked(driver: Driver) -> None:
    ready, acquired = driver.request(), driver.request(RunKind.FLOW, "copy")
    fence = driver.catalog.runs.acquire(acquired, owner="me", lease=LEASE).fencing_token
    driver.catalog.runs.kill(ready)
    driver.catalog.runs.fail(acquired, fence, error="no")
    assert driver.catalog.files.list_marked() == set()


def test_finished_and_running_attempts_are_not_marked(driver: Driver) -> None:
    driver.insert()
    driver.open_insert()
    driver.catalog.blocks.purge()
    assert driver.catalog.files.list_marked() == set()


def test_each_attempt_has_its_own_directory_marked(driver: Driver) -> None:
    claim = driver.open_insert(attempts=2)
    driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="no", retry_in=0)
    again = driver.claim(claim.run.id, build_insert_request())
    driver.commit(again)
    assert driver.catalog.files.list_marked() == {claim.directory}
    listed = driver.catalog.files.find_attempts([claim.directory, again.directory, "runs/99/99"])
    assert {directory: run.id for directory, run in listed.items()} == {again.directory: claim.run.id}


def test_due_removals_are_limited_and_oldest_first(driver: Driver) -> None:
    marked = []
    for _ in range(3):
        claim = driver.open_insert()
        driver.catalog.runs.kill(claim.run.id)
        marked.append(claim.directory)
        driver.clock.now += 1
    listed = driver.catalog.files.list_due_removals(GracePeriods(0.0, 0.0), 2)
    assert [r.path for r in listed] == marked[:2]


def test_a_removal_that_another_process_finished_leaves_no_second_event(driver: Driver) -> None:
    claim = driver.open_insert()
    driver.catalog.runs.kill(claim.run.id)
    for _ in range(2):
        driver.catalog.files.finish_removals([claim.directory])
    assert driver.kinds_of_events().count("files.removed") == 1


def test_orphans_are_marked_once(driver: Driver) -> None:
    block = driver.insert()
    assert block.run is not None
    paths = ["runs/1/1/left.parquet", "runs/1/1/more.parquet"]
    assert driver.catalog.files.mark_orphans(block.run, paths[:1]) == 1
    assert driver.catalog.files.mark_orphans(block.run, paths) == 1
    assert driver.catalog.files.list_marked() == set(paths)
    with pytest.raises(NotFound):
        driver.catalog.files.mark_orphans(999, ["runs/999/1/x"])


def test_the_catalog_lists_the_files_that_it_references(driver: Driver) -> None:
    assert driver.catalog.files.list_newest(5) == []
    first, second = driver.insert(), driver.insert()
    paths = [second.files[0].path, first.files[0].path]
    assert driver.catalog.files.list_newest(5) == paths
    assert driver.catalog.files.list_newest(1) == paths[:1]
    assert driver.catalog.files.find_referenced([*paths, "runs/9/9/9/x"]) == set(paths)
    assert driver.catalog.files.find_referenced([]) == set()


def test_the_catalog_reports_its_newest_run(driver: Driver) -> None:
    before = driver.catalog.read_identity()
    claim = driver.open_insert()
    after = driver.catalog.read_identity()
    assert (after.id, after.newest_run) == (before.id, claim.run.id)
    assert after.clock == claim.run.fencing_token > before.clock
