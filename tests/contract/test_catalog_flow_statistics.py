"""Flow statistics are cached between reads and always equal a first read."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from benchmarks.statement_count import count_statements
from tests.catalog.driver import CHANNELS, COPY, WORKFLOW, Driver, task

from tidemill.catalog.flows import SqlFlowCatalog
from tidemill.model.block import BlockKind
from tidemill.model.flow import BoundFlow
from tidemill.model.run import ClaimRequest, Run, RunKind, RunOutcome
from tidemill.model.task import ReadMode
from tidemill.model.trigger import DataTrigger
from tidemill.model.workflow import WorkflowSpec

NEXT = BoundFlow("next", (task("nexts", {"d": ReadMode.NEW}, {"e": BlockKind.DELTA}),))


def declare(driver: Driver, priority: float) -> None:
    flows = (replace(COPY, triggers=(DataTrigger("a"),), priority=priority), NEXT)
    driver.catalog.workflows.apply(WorkflowSpec("w", (*CHANNELS, replace(CHANNELS[2], name="e")), flows))


def end_run(driver: Driver, run: Run, random: Random) -> None:
    """End a run: some have nothing to do, some are killed, and durations differ."""
    if random.random() < 0.2:
        driver.catalog.runs.kill(run.id)
        return
    claim = driver.claim(run.id, ClaimRequest())
    driver.clock.now += random.choice((0.5, 2.0, 30.0))
    driver.catalog.runs.commit(
        claim, RunOutcome((), stats=random.choice(({"tasks": {"t": {}}}, _build_watermark_stats(driver, random), {})))
    )


def _build_watermark_stats(driver: Driver, random: Random) -> dict[str, object]:
    return {"tasks": {"t": {"watermark": driver.clock.now - random.choice((5.0, 60.0))}}}


def step(driver: Driver, random: Random) -> None:
    catalog = driver.catalog
    driver.clock.now += random.choice((0.0, 1.0, 7.0))
    match random.choice(("insert", "insert", "fire", "ask", "end", "end", "end", "declare", "prioritise")):
        case "insert":
            driver.insert("a")
        case "fire":
            for leaf in catalog.triggers.list_due():
                catalog.triggers.fire(leaf)
        case "ask":
            flow = random.choice(("copy", "next"))
            catalog.runs.request(RunKind.FLOW, flow, attempts=1, backfill=random.random() < 0.3)
        case "end":
            for run in catalog.runs.list_runnable()[:1]:
                end_run(driver, run, random)
        case "declare":
            declare(driver, random.choice((1.0, 5.0)))
        case "prioritise":
            catalog.workflows.set_priority("w", random.choice((0, 3)))


@pytest.mark.parametrize("seed", range(2))
def test_cached_statistics_equal_those_of_a_first_read(driver: Driver, seed: int) -> None:
    random = Random(seed)
    declare(driver, 1.0)
    distinct_statistics = set()
    for _ in range(40):
        step(driver, random)
        cached = driver.catalog.flows.read_statistics()
        assert cached == SqlFlowCatalog(driver.catalog.database).read_statistics()
        distinct_statistics |= {(f.seconds, f.last_start, f.period) for f in cached.values()}
    assert len(distinct_statistics) > 3


def test_a_later_read_processes_only_new_events(driver: Driver) -> None:
    declare(driver, 1.0)
    first = driver.catalog.flows.read_statistics()
    claim = driver.claim(driver.request(RunKind.FLOW, "next"), ClaimRequest())
    driver.catalog.runs.commit(claim, RunOutcome((), stats={"tasks": {"t": {}}}))
    with count_statements(driver.catalog) as statements:
        later = driver.catalog.flows.read_statistics()
    assert later["copy"] is first["copy"]
    assert later["next"] != first["next"]
    assert statements.count <= 5  # BEGIN, the newest event, the declared flows, the firings and the runs


def test_a_flow_that_is_no_longer_declared_has_no_statistics(driver: Driver) -> None:
    declare(driver, 1.0)
    assert len(driver.catalog.flows.read_statistics()) == 2
    driver.catalog.workflows.apply(WORKFLOW)
    assert list(driver.catalog.flows.read_statistics()) == ["copy"]
