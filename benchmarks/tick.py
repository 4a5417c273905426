"""What it costs a server to find that nothing is due, however many tables there are; and its dispatcher to learn."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.catalog.statement_count import count_statements
from tidemill.model.block import BlockKind
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.run import ClaimRequest, Run, RunKind, RunOutcome
from tidemill.model.schema import Schema
from tidemill.model.task import ReadMode, Sql, Task, TaskInput, TaskOutput, Variant
from tidemill.model.trigger import CronTrigger, DataTrigger, IntervalTrigger, Trigger
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.records import Server
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.runs.dispatch import DispatchConfig, RunDispatcher
from tidemill.runtime.runs.server import ServerIntervals, ServerLoop

TICKS = 50
LOOKS = 20  # in a round, each after the run of another flow
ROUNDS = 2  # until all is learnt, and as many afterwards
A_RUN = 5.0  # seconds
A_WORKFLOW = 500  # tables; that many are registered in one transaction
_DAY = 86400.0
_SCHEMA = Schema.from_ddl("a int")


class _Clock:
    """Goes on when it is told to, so that runs take as long as they should."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


def measure(
    directory: Path, *, tables: int, ticks: int = TICKS, catalog_url: str | None = None, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Register so many idle tables, each with a trigger, and let a server tick."""
    clock = _Clock()
    catalog = open_catalog(catalog_url or f"sqlite:///{directory / 'catalog.db'}", clock)
    try:
        tell(f"registering {tables} tables")
        _register(catalog, tables)
        return _ticked(catalog, tables, ticks) | _looked(catalog, clock, tables)
    finally:
        catalog.close()


def _ticked(catalog: SqlCatalog, tables: int, ticks: int) -> dict[str, Any]:
    """Every tick is a leader's, with the word that it is there."""
    loop = ServerLoop(catalog, Server("bench", "work", 2), _nothing, [], ServerIntervals(leader_lease=1e-9))
    loop.tick()
    taken, asked = [], set()
    for _ in range(ticks):
        began = time.perf_counter()
        with count_statements(catalog) as statements:
            loop.tick()
        taken.append(time.perf_counter() - began)
        asked.add(statements.count)
    loop.drain()
    loop.run()
    return {
        "tables": tables,
        "tick_ms": round(median(taken) * 1000, 2),
        "slowest_ms": round(max(taken) * 1000, 2),
        "queries": max(asked),
    }


def _looked(catalog: SqlCatalog, clock: _Clock, tables: int) -> dict[str, Any]:
    """A dispatcher that looks at all flows anew for each run, after one of them has run.

    In the first rounds it learns how long each of them takes and how often it is due, and has to place all flows anew.
    """
    dispatch = RunDispatcher(catalog, DispatchConfig(), interval=0.0)
    taken = []
    for number in range(2 * ROUNDS * LOOKS):
        run = catalog.request_run(RunKind.FLOW, f"t{number % min(LOOKS, tables)}")
        began = time.perf_counter()
        (started,) = dispatch.start_runs([run], clock())
        taken.append(1000 * (time.perf_counter() - began))
        claim = catalog.claim_run(run.id, ClaimRequest(), owner="bench", lease=60.0)
        clock.now += A_RUN
        catalog.commit_run(claim, RunOutcome((), stats={"tasks": {run.subject: {}}}))
        dispatch.finish_run(started, clock())
    middle = ROUNDS * LOOKS
    return {
        "first_look_ms": round(taken[0], 2),
        "placing_look_ms": round(median(taken[1:middle]), 2),
        "look_ms": round(median(taken[middle:]), 2),
    }


def _register(catalog: SqlCatalog, tables: int) -> None:
    for first in range(0, tables, A_WORKFLOW):
        numbers = range(first, min(first + A_WORKFLOW, tables))
        source = f"in{first}"
        inputs = Channel(source, ChannelRole.INPUT, _SCHEMA)
        outputs = tuple(Channel(f"t{n}", ChannelRole.DERIVED, _SCHEMA) for n in numbers)
        bindings = tuple(_binding(n, source) for n in numbers)
        catalog.apply_workflow(WorkflowSpec(f"w{first}", (inputs, *outputs), bindings))


def _binding(number: int, source: str) -> BoundFlow:
    name = f"t{number}"
    variant = Variant(
        "only",
        (TaskInput(source, source, ReadMode.ALL),),
        (TaskOutput(name, name, BlockKind.BASE),),
        Sql("SELECT 1 AS a"),
    )
    kinds: tuple[Trigger, ...] = (DataTrigger(source), IntervalTrigger(_DAY), CronTrigger("0 3 * * *", "Europe/Berlin"))
    return BoundFlow(name, (Task(name, (variant,)),), triggers=(kinds[number % len(kinds)],))


def _nothing(_run: Run, _portion: CatchUpLimit | None) -> None:
    raise AssertionError("nothing is due")
