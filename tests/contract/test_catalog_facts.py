"""What is known of flows is kept from look to look, and is always what a first look would find."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.catalog.driver import CHANNELS, COPY, WORKFLOW, Driver, task

from tidemill.catalog.reader import SqlCatalogReader
from tidemill.catalog.statement_count import count_statements
from tidemill.model.block import BlockKind
from tidemill.model.flow import BoundFlow
from tidemill.model.run import ClaimRequest, Run, RunKind, RunOutcome
from tidemill.model.task import ReadMode
from tidemill.model.trigger import DataTrigger
from tidemill.model.workflow import WorkflowSpec

NEXT = BoundFlow("next", (task("nexts", {"d": ReadMode.NEW}, {"e": BlockKind.DELTA}),))


def declare(driver: Driver, priority: float) -> None:
    flows = (replace(COPY, triggers=(DataTrigger("a"),), priority=priority), NEXT)
    driver.catalog.apply_workflow(WorkflowSpec("w", (*CHANNELS, replace(CHANNELS[2], name="e")), flows))


def end(driver: Driver, run: Run, random: Random) -> None:
    """Some runs find nothing to do, some are killed, and each takes its time."""
    if random.random() < 0.2:
        driver.catalog.kill_run(run.id)
        return
    claim = driver.claim(run.id, ClaimRequest())
    driver.clock.now += random.choice((0.5, 2.0, 30.0))
    driver.catalog.commit_run(
        claim, RunOutcome((), stats=random.choice(({"tasks": {"t": {}}}, _settled(driver, random), {})))
    )


def _settled(driver: Driver, random: Random) -> dict[str, object]:
    return {"tasks": {"t": {"edge": driver.clock.now - random.choice((5.0, 60.0))}}}


def step(driver: Driver, random: Random) -> None:
    catalog = driver.catalog
    driver.clock.now += random.choice((0.0, 1.0, 7.0))
    match random.choice(("insert", "insert", "fire", "ask", "end", "end", "end", "declare", "prioritise")):
        case "insert":
            driver.insert("a")
        case "fire":
            for leaf in catalog.list_due_triggers():
                catalog.fire_trigger(leaf)
        case "ask":
            flow = random.choice(("copy", "next"))
            catalog.request_run(RunKind.FLOW, flow, attempts=1, backfill=random.random() < 0.3)
        case "end":
            for run in catalog.list_runnable_runs()[:1]:
                end(driver, run, random)
        case "declare":
            declare(driver, random.choice((1.0, 5.0)))
        case "prioritise":
            catalog.set_workflow_priority("w", random.choice((0, 3)))


@pytest.mark.parametrize("seed", range(2))
def test_what_is_kept_is_what_a_first_look_finds(driver: Driver, seed: int) -> None:
    random = Random(seed)
    declare(driver, 1.0)
    seen = set()
    for _ in range(40):
        step(driver, random)
        kept = driver.catalog.read_flow_statistics()
        assert kept == SqlCatalogReader(driver.catalog._engine).read_flow_statistics()
        seen |= {(f.seconds, f.last_start, f.period) for f in kept.values()}
    assert len(seen) > 3


def test_a_later_look_reads_only_what_happened(driver: Driver) -> None:
    declare(driver, 1.0)
    first = driver.catalog.read_flow_statistics()
    claim = driver.claim(driver.request(RunKind.FLOW, "next"), ClaimRequest())
    driver.catalog.commit_run(claim, RunOutcome((), stats={"tasks": {"t": {}}}))
    with count_statements(driver.catalog) as statements:
        later = driver.catalog.read_flow_statistics()
    assert later["copy"] is first["copy"]
    assert later["next"] != first["next"]
    assert statements.count <= 5  # the newest event, what was declared, what fired, what ran; and that it begins


def test_a_flow_that_is_no_longer_declared_is_not_known(driver: Driver) -> None:
    declare(driver, 1.0)
    assert len(driver.catalog.read_flow_statistics()) == 2
    driver.catalog.apply_workflow(WORKFLOW)
    assert list(driver.catalog.read_flow_statistics()) == ["copy"]
