"""The recorded arrivals and runs of a catalog can be replayed under every policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.catalog.driver import CHANNELS, COPY, Driver, FakeClock, task

from tidemill.catalog import open_catalog
from tidemill.errors import NotFound
from tidemill.model.block import BlockKind
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.run import ClaimRequest, RunKind, RunOutcome
from tidemill.model.task import ReadMode
from tidemill.model.workflow import WorkflowSpec
from tidemill.runtime.inspect.replay_record import build_replay_records
from tidemill.sim.staleness.replay import CONFIGS, replay_policies

IMPORTANT = BoundFlow("important", (task("importants", {"a": ReadMode.NEW}, {"e": BlockKind.DELTA}),), priority=10.0)
LAST = BoundFlow("last", (task("lasts", {"e": ReadMode.NEW}, {"f": BlockKind.DELTA}),), priority=2.0)
DERIVED = (Channel("e", ChannelRole.DERIVED), Channel("f", ChannelRole.DERIVED))


def run(driver: Driver, flow: str, seconds: float) -> None:
    claim = driver.claim(driver.request(RunKind.FLOW, flow), ClaimRequest())
    driver.clock.now += seconds
    driver.catalog.runs.commit(claim, RunOutcome((), stats={"tasks": {flow: {}}}))


def test_arrivals_and_run_times_of_a_catalog_are_replayed(tmp_path: Path) -> None:
    clock = FakeClock()
    driver = Driver(open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", clock), clock)
    driver.catalog.workflows.apply(WorkflowSpec("w", (*CHANNELS, *DERIVED), (COPY, IMPORTANT, LAST)))
    with pytest.raises(NotFound, match="nothing to replay"):
        build_replay_records(driver.catalog)
    arrivals = []
    for _ in range(3):
        clock.now += 10.0
        driver.insert("a")
        arrivals.append(clock.now)
        for flow, seconds in (("copy", 4.0), ("important", 1.0), ("last", 0.5)):
            run(driver, flow, seconds)
    records = build_replay_records(driver.catalog)
    assert [time for time, _ in records["important"].batches] == pytest.approx(arrivals)
    assert records["copy"].runs == [pytest.approx((15.5, 4.0))] * 2
    assert (records["important"].priority, records["last"].parents, records["last"].batches) == (
        10.0,
        ("important",),
        [],
    )
    replays = {replay.name: replay.staleness for replay in replay_policies(records, tracks=1)}
    assert replays.keys() == CONFIGS.keys()
    assert replays["max-benefit, single"] < replays["first-come, single"]
    driver.catalog.close()
