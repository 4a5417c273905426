"""A run may stop before the head of a channel: what its cursor leaves unread stays readable, whenever it is claimed."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.catalog.driver import COPY, SCHEMA, WORKFLOW, Driver, FakeClock, moves_of

from tidemill.catalog import open_catalog
from tidemill.errors import Conflict
from tidemill.model.change import Append
from tidemill.model.run import RunClaim, RunKind, build_claim_request
from tidemill.model.view import build_chain
from tidemill.ports.engine import Engine
from tidemill.ports.storage import BlockStore
from tidemill.runtime.maintenance.vacuum import VacuumService
from tidemill.runtime.runs.execution import Executor

EXAMPLES = int(os.environ.get("TIDEMILL_EXAMPLES", "15"))


class Store:
    """Has no files, so nothing is removed."""

    def delete_files(self, paths: object) -> int:
        return 0


def open_vacuum(driver: Driver) -> VacuumService:
    return VacuumService(Executor(driver.catalog, cast(BlockStore, Store()), cast(Engine, None), "me"))


def claim_up_to(driver: Driver, seq: int) -> RunClaim:
    request = build_claim_request(COPY, {("copying", "a"): seq})
    return driver.claim(driver.request(RunKind.FLOW, "copy"), request)


def is_readable(driver: Driver) -> bool:
    """Whether the changes after the cursor can be read."""
    cursor = next((c.position.seq for c in driver.catalog.channels.read_cursors("a")), None)
    blocks = driver.catalog.blocks.list_filled("a")
    return cursor is None or build_chain("a", SCHEMA, Append(), blocks, cursor, driver.head()) is not None


def test_blocks_after_the_stop_of_an_active_run_are_not_collected(driver: Driver) -> None:
    for _ in range(3):
        driver.insert()
    claim = claim_up_to(driver, 1)
    driver.compact("a", 3)
    assert open_vacuum(driver).collect_garbage().blocks == 0
    driver.commit(claim, moves_of(claim))
    assert open_vacuum(driver).collect_garbage().blocks == 0
    assert is_readable(driver)
    assert [(read.since, read.upto) for read in driver.catalog.runs.list_reads(claim.run.id)] == [(0, 1), (None, 0)]


def test_a_run_that_ended_needs_nothing(driver: Driver) -> None:
    for _ in range(3):
        driver.insert()
    claim = claim_up_to(driver, 1)
    assert driver.catalog.channels.list_active_positions("a") == {1, 3}
    driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="no")
    assert driver.catalog.channels.list_active_positions("a") == set()
    assert driver.catalog.runs.list_reads(claim.run.id) == []
    assert driver.catalog.runs.list_block_reads("a", 1) == []


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_collection_that_was_planned_before_a_claim_conflicts(driver: Driver, is_committed: bool) -> None:
    blocks = [driver.insert().id for _ in range(3)]
    driver.compact("a", 3)
    claim = claim_up_to(driver, 1)
    if is_committed:
        driver.commit(claim, moves_of(claim))
    with pytest.raises(Conflict, match=r"cursors on a moved to \[1\] meanwhile; collect again"):
        driver.catalog.blocks.collect(blocks, {3})
    assert driver.catalog.blocks.collect(blocks[:1], {1, 3}) == 1


class History:
    """One channel with a reader that stops anywhere, and collections that take effect after they were planned."""

    def __init__(self, driver: Driver, data: st.DataObject) -> None:
        self.driver = driver
        self.draw = data.draw
        self.claims: list[RunClaim] = []
        self.planned: list[tuple[list[int], set[int]]] = []

    def insert(self) -> None:
        self.driver.insert()

    def compact(self) -> None:
        """Write a base, or a delta from any position."""
        head = self.driver.head()
        since = self.draw(st.integers(-1, head - 2)) if head > 1 else -1
        with suppress(Conflict):
            self.driver.compact("a", head) if since < 0 else self.driver.compact_minor("a", since, head)

    def claim(self) -> None:
        cursor = next((c.position.seq for c in self.driver.catalog.channels.read_cursors("a")), 0)
        if not self.claims:
            with suppress(Conflict):  # the position was collected before the claim
                self.claims.append(claim_up_to(self.driver, self.draw(st.integers(cursor, self.driver.head()))))

    def commit(self) -> None:
        for claim in self.claims:
            self.driver.commit(claim, moves_of(claim))
        self.claims.clear()

    def plan(self) -> None:
        collect = self.driver.catalog.blocks.collect

        def remember(blocks: list[int], needs: set[int]) -> int:
            self.planned.append((blocks, needs))
            return 0

        self.driver.catalog.blocks.collect = remember
        open_vacuum(self.driver).collect_garbage()
        self.driver.catalog.blocks.collect = collect

    def collect(self) -> None:
        for blocks, needs in self.planned:
            with suppress(Conflict):
                self.driver.catalog.blocks.collect(blocks, needs)
        self.planned.clear()


STEPS = (History.insert, History.insert, History.compact, History.claim, History.commit, History.plan, History.collect)


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_what_a_cursor_leaves_unread_stays_readable(data: st.DataObject, sqlite_template: Path) -> None:
    with TemporaryDirectory() as directory:
        clock = FakeClock()
        catalog = open_catalog(f"sqlite:///{shutil.copy(sqlite_template, directory)}", clock)
        catalog.workflows.apply(WORKFLOW)
        history = History(Driver(catalog, clock), data)
        for step in [History.insert] * 3 + data.draw(st.lists(st.sampled_from(STEPS), min_size=4, max_size=12)):
            clock.now += 1.0
            step(history)
            assert is_readable(history.driver)
        catalog.close()
