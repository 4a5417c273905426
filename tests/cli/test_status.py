"""`runtime.inspect.status` on a catalog with complete runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.catalog.driver import COPY, WORKFLOW, Driver, FakeClock

from tidemill.catalog import open_catalog
from tidemill.model.run import RunState
from tidemill.model.task import ReadMode
from tidemill.runtime.inspect.status import ChannelConsumer, FlowStatus, read_status


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    clock = FakeClock()
    catalog = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", clock)
    catalog.workflows.apply(WORKFLOW)
    yield Driver(catalog, clock)
    catalog.close()


def count_blocks_behind(driver: Driver) -> dict[str, int]:
    return {c.channel: c.behind for status in read_status(driver.catalog).channels for c in status.consumers}


def read_flow(driver: Driver) -> FlowStatus:
    (flow,) = read_status(driver.catalog).flows
    return flow


def test_a_flow_that_never_ran_is_behind_everything(driver: Driver) -> None:
    driver.insert("a")
    driver.insert("a")
    driver.insert("b")
    assert count_blocks_behind(driver) == {"a": 2, "b": 1}
    assert (read_flow(driver).last, read_flow(driver).pending_channels) == (None, ("a", "b"))


def test_a_run_consumes_all_pending_blocks(driver: Driver) -> None:
    driver.insert("a")
    driver.run_flow()
    driver.insert("b")
    assert count_blocks_behind(driver) == {"a": 0, "b": 1}
    last = read_flow(driver).last
    assert last is not None
    assert (last.state, read_flow(driver).pending_channels) == (RunState.FINISHED, ("b",))


def test_a_failed_run_consumes_nothing(driver: Driver) -> None:
    driver.insert("a")
    claim = driver.open_flow()
    driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="no")
    assert count_blocks_behind(driver) == {"a": 1, "b": 0}
    last = read_flow(driver).last
    assert last is not None
    assert last.state is RunState.FAILED


def test_a_compacted_base_is_no_news(driver: Driver) -> None:
    driver.insert("a")
    driver.insert("a")
    driver.compact("a", 2)
    assert count_blocks_behind(driver)["a"] == 2
    driver.run_flow()
    assert count_blocks_behind(driver)["a"] == 0


def test_slots_that_are_held_are_not_waited_for(driver: Driver) -> None:
    driver.open_insert("a")
    driver.insert("a")
    assert count_blocks_behind(driver)["a"] == 0
    now = read_status(driver.catalog)
    assert [(r.subject, r.state) for r in now.active] == [("a", RunState.SUBMITTED)]
    assert {c.registered.channel.name: c.registered.reserved for c in now.channels} == {"a": 1, "b": 0, "d": 0}


def test_consumers_know_their_modes(driver: Driver) -> None:
    channels = {c.registered.channel.name: c for c in read_status(driver.catalog).channels}
    (task,) = COPY.tasks
    assert channels["a"].consumers == (ChannelConsumer(COPY.name, task.name, "a", (ReadMode.NEW,), 0),)
    assert channels["b"].consumers == (ChannelConsumer(COPY.name, task.name, "b", (ReadMode.ALL,), 0),)
    assert channels["d"].consumers == ()
