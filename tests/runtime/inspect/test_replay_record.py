"""What a catalog remembers of a real system can be replayed under every policy."""

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

DEAR = BoundFlow("dear", (task("dears", {"a": ReadMode.NEW}, {"e": BlockKind.DELTA}),), priority=10.0)
LAST = BoundFlow("last", (task("lasts", {"e": ReadMode.NEW}, {"f": BlockKind.DELTA}),), priority=2.0)
DERIVED = (Channel("e", ChannelRole.DERIVED), Channel("f", ChannelRole.DERIVED))


def run(driver: Driver, flow: str, seconds: float) -> None:
    claim = driver.claim(driver.request(RunKind.FLOW, flow), ClaimRequest())
    driver.clock.now += seconds
    driver.catalog.commit_run(claim, RunOutcome((), stats={"tasks": {flow: {}}}))


def test_arrivals_and_run_times_of_a_catalog_are_replayed(tmp_path: Path) -> None:
    clock = FakeClock()
    driver = Driver(open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", clock), clock)
    driver.catalog.apply_workflow(WorkflowSpec("w", (*CHANNELS, *DERIVED), (COPY, DEAR, LAST)))
    with pytest.raises(NotFound, match="nothing to replay"):
        build_replay_records(driver.catalog)
    came = []
    for _ in range(3):
        clock.now += 10.0
        driver.insert("a")
        came.append(clock.now)
        for flow, seconds in (("copy", 4.0), ("dear", 1.0), ("last", 0.5)):
            run(driver, flow, seconds)
    found = build_replay_records(driver.catalog)
    assert [at for at, _ in found["dear"].batches] == pytest.approx(came)
    assert found["copy"].runs == [pytest.approx((15.5, 4.0))] * 2
    assert (found["dear"].priority, found["last"].parents, found["last"].batches) == (10.0, ("dear",), [])
    replays = {replay.name: replay.staleness for replay in replay_policies(found, tracks=1)}
    assert replays.keys() == CONFIGS.keys()
    assert replays["max-benefit, single"] < replays["first-come, single"]
    driver.catalog.close()
