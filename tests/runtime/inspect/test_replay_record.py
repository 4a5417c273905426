"""What a catalog remembers of a real system can be replayed under every policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.catalog.driver import CHANNELS, COPY, Driver, FakeClock, task

from tidemill.catalog import open_catalog
from tidemill.errors import NotFound
from tidemill.model.block import Kind
from tidemill.model.channel import Channel, Role
from tidemill.model.flow import Binding
from tidemill.model.run import Demand, Outcome, RunKind
from tidemill.model.task import Mode
from tidemill.model.workflow import Workflow
from tidemill.runtime.inspect.replay_record import recorded
from tidemill.sim.staleness.replay import WAYS, replayed

DEAR = Binding("dear", (task("dears", {"a": Mode.NEW}, {"e": Kind.DELTA}),), priority=10.0)
LAST = Binding("last", (task("lasts", {"e": Mode.NEW}, {"f": Kind.DELTA}),), priority=2.0)
DERIVED = (Channel("e", Role.DERIVED), Channel("f", Role.DERIVED))


def run(driver: Driver, flow: str, seconds: float) -> None:
    claim = driver.claim(driver.request(RunKind.FLOW, flow), Demand())
    driver.clock.now += seconds
    driver.catalog.commit(claim, Outcome((), stats={"tasks": {flow: {}}}))


def test_arrivals_and_run_times_of_a_catalog_are_replayed(tmp_path: Path) -> None:
    clock = FakeClock()
    driver = Driver(open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", clock), clock)
    driver.catalog.apply(Workflow("w", (*CHANNELS, *DERIVED), (COPY, DEAR, LAST)))
    with pytest.raises(NotFound, match="nothing to replay"):
        recorded(driver.catalog)
    came = []
    for _ in range(3):
        clock.now += 10.0
        driver.insert("a")
        came.append(clock.now)
        for flow, seconds in (("copy", 4.0), ("dear", 1.0), ("last", 0.5)):
            run(driver, flow, seconds)
    found = recorded(driver.catalog)
    assert [at for at, _ in found["dear"].batches] == pytest.approx(came)
    assert found["copy"].runs == [pytest.approx((15.5, 4.0))] * 2
    assert (found["dear"].priority, found["last"].parents, found["last"].batches) == (10.0, ("dear",), [])
    replays = {replay.name: replay.staleness for replay in replayed(found, tracks=1)}
    assert replays.keys() == WAYS.keys()
    assert replays["max-benefit, single"] < replays["first-come, single"]
    driver.catalog.close()
