"""What is known of flows is kept from look to look, and is always what a first look would find."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.catalog.driver import CHANNELS, COPY, WORKFLOW, Driver, task

from tidemill.catalog.reader import SqlCatalogReader
from tidemill.catalog.statement_count import counted
from tidemill.model.block import Kind
from tidemill.model.flow import Binding
from tidemill.model.run import Demand, Outcome, Run, RunKind
from tidemill.model.task import Mode
from tidemill.model.trigger import Data
from tidemill.model.workflow import Workflow

NEXT = Binding("next", (task("nexts", {"d": Mode.NEW}, {"e": Kind.DELTA}),))


def declare(driver: Driver, priority: float) -> None:
    flows = (replace(COPY, triggers=(Data("a"),), priority=priority), NEXT)
    driver.catalog.apply(Workflow("w", (*CHANNELS, replace(CHANNELS[2], name="e")), flows))


def end(driver: Driver, run: Run, random: Random) -> None:
    """Some runs find nothing to do, some are killed, and each takes its time."""
    if random.random() < 0.2:
        driver.catalog.kill(run.id)
        return
    claim = driver.claim(run.id, Demand())
    driver.clock.now += random.choice((0.5, 2.0, 30.0))
    driver.catalog.commit(claim, Outcome((), stats=random.choice(({"tasks": {"t": {}}}, _settled(driver, random), {}))))


def _settled(driver: Driver, random: Random) -> dict[str, object]:
    return {"tasks": {"t": {"edge": driver.clock.now - random.choice((5.0, 60.0))}}}


def step(driver: Driver, random: Random) -> None:
    catalog = driver.catalog
    driver.clock.now += random.choice((0.0, 1.0, 7.0))
    match random.choice(("insert", "insert", "fire", "ask", "end", "end", "end", "declare", "prioritise")):
        case "insert":
            driver.insert("a")
        case "fire":
            for leaf in catalog.due_triggers():
                catalog.fire(leaf)
        case "ask":
            flow = random.choice(("copy", "next"))
            catalog.request(RunKind.FLOW, flow, attempts=1, backfill=random.random() < 0.3)
        case "end":
            for run in catalog.runnable()[:1]:
                end(driver, run, random)
        case "declare":
            declare(driver, random.choice((1.0, 5.0)))
        case "prioritise":
            catalog.prioritise("w", random.choice((0, 3)))


@pytest.mark.parametrize("seed", range(2))
def test_what_is_kept_is_what_a_first_look_finds(driver: Driver, seed: int) -> None:
    random = Random(seed)
    declare(driver, 1.0)
    seen = set()
    for _ in range(40):
        step(driver, random)
        kept = driver.catalog.facts()
        assert kept == SqlCatalogReader(driver.catalog._engine).facts()
        seen |= {(f.seconds, f.began, f.period) for f in kept.values()}
    assert len(seen) > 3


def test_a_later_look_reads_only_what_happened(driver: Driver) -> None:
    declare(driver, 1.0)
    first = driver.catalog.facts()
    claim = driver.claim(driver.request(RunKind.FLOW, "next"), Demand())
    driver.catalog.commit(claim, Outcome((), stats={"tasks": {"t": {}}}))
    with counted(driver.catalog) as statements:
        later = driver.catalog.facts()
    assert later["copy"] is first["copy"]
    assert later["next"] != first["next"]
    assert statements.count <= 5  # the newest event, what was declared, what fired, what ran; and that it begins


def test_a_flow_that_is_no_longer_declared_is_not_known(driver: Driver) -> None:
    declare(driver, 1.0)
    assert len(driver.catalog.facts()) == 2
    driver.catalog.apply(WORKFLOW)
    assert list(driver.catalog.facts()) == ["copy"]
