"""Cost of a server's poll when nothing is due, by the number of tables; and of a dispatcher's updates.

Ticks are timed twice: of a loop alone, with the number of its statements, and of a complete server with default
settings, whose maintenance and other periodic tasks run meanwhile and whose Spark is started.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.statement_count import count_statements
from tidemill.app.project import Project
from tidemill.app.serving import build_server_loop
from tidemill.app.settings import CatalogSettings, Settings
from tidemill.app.wiring import Tidemill
from tidemill.catalog import SqlCatalog, open_catalog
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
RUNS_PER_ROUND = 20  # each of another flow
ROUNDS = 2  # until durations are estimated, and as many afterwards
RUN_SECONDS = 5.0  # seconds
TABLES_PER_WORKFLOW = 500  # tables that are registered in one transaction
_DAY = 86400.0
_SCHEMA = Schema.from_ddl("a int")


class _Clock:
    """A clock that advances only by assignment, so that runs have a fixed duration."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


def measure(
    directory: Path,
    *,
    tables: int,
    ticks: int = TICKS,
    catalog_url: str | None = None,
    on_progress: Callable[[str], None],
) -> dict[str, Any]:
    """Register idle tables, each with a trigger, and time the polls of a server."""
    clock, url = _Clock(), catalog_url or f"sqlite:///{directory / 'catalog.db'}"
    with closing(open_catalog(url, clock)) as catalog:
        on_progress(f"registering {tables} tables")
        _register_tables(catalog, tables)
        alone = _time_ticks(catalog, tables, ticks) | _time_dispatcher(catalog, clock, tables)
    on_progress("starting a server with Spark and maintenance")
    with Tidemill(directory, Settings(catalog=CatalogSettings(url=url)), Project(())) as mill:
        mill.engine.start()
        return alone | _time_server(mill, ticks)


def _time_ticks(catalog: SqlCatalog, tables: int, ticks: int) -> dict[str, Any]:
    """Time polls of a leader, each with its heartbeat."""
    loop = ServerLoop(catalog, Server("bench", "work", 2), _fail_on_run, [], ServerIntervals(leader_lease=1e-9))
    loop.tick()
    with count_statements(catalog) as statements:
        seconds = [_time_tick(loop) for _ in range(ticks)]
    loop.drain()
    loop.run()
    return {
        "tables": tables,
        "tick_ms": round(median(seconds) * 1000, 2),
        "slowest_ms": round(max(seconds) * 1000, 2),
        "queries": round(statements.count / ticks, 1),
    }


def _time_server(mill: Tidemill, ticks: int) -> dict[str, Any]:
    """Time polls of a complete server, at its default interval."""
    loop, seconds = build_server_loop(mill, "work"), []
    loop.tick()
    for _ in range(ticks):
        time.sleep(mill.settings.server.poll_interval)
        seconds.append(_time_tick(loop))
    loop.drain()
    loop.run()
    return {
        "server_tick_ms": round(median(seconds) * 1000, 2),
        "server_slowest_ms": round(max(seconds) * 1000, 2),
    }


def _time_tick(loop: ServerLoop) -> float:
    began = time.perf_counter()
    loop.tick()
    return time.perf_counter() - began


def _time_dispatcher(catalog: SqlCatalog, clock: _Clock, tables: int) -> dict[str, Any]:
    """Time a dispatcher that updates its view of all flows after each run.

    In the first rounds it estimates duration and period of each flow, and has to place all flows again.
    """
    dispatch = RunDispatcher(catalog.flows, DispatchConfig(), interval=0.0)
    milliseconds = []
    for number in range(2 * ROUNDS * RUNS_PER_ROUND):
        run = catalog.runs.request(RunKind.FLOW, f"t{number % min(RUNS_PER_ROUND, tables)}")
        began = time.perf_counter()
        (started,) = dispatch.start_runs([run], clock())
        milliseconds.append(1000 * (time.perf_counter() - began))
        claim = catalog.runs.claim(run.id, ClaimRequest(), owner="bench", lease=60.0)
        clock.now += RUN_SECONDS
        catalog.runs.commit(claim, RunOutcome((), stats={"tasks": {run.subject: {}}}))
        dispatch.finish_run(started, clock())
    middle = ROUNDS * RUNS_PER_ROUND
    return {
        "first_look_ms": round(milliseconds[0], 2),
        "placing_look_ms": round(median(milliseconds[1:middle]), 2),
        "look_ms": round(median(milliseconds[middle:]), 2),
    }


def _register_tables(catalog: SqlCatalog, tables: int) -> None:
    for first in range(0, tables, TABLES_PER_WORKFLOW):
        numbers = range(first, min(first + TABLES_PER_WORKFLOW, tables))
        source = f"in{first}"
        inputs = Channel(source, ChannelRole.INPUT, _SCHEMA)
        outputs = tuple(Channel(f"t{n}", ChannelRole.DERIVED, _SCHEMA) for n in numbers)
        bindings = tuple(_create_binding(n, source) for n in numbers)
        catalog.workflows.apply(WorkflowSpec(f"w{first}", (inputs, *outputs), bindings))


def _create_binding(number: int, source: str) -> BoundFlow:
    name = f"t{number}"
    variant = Variant(
        "only",
        (TaskInput(source, source, ReadMode.ALL),),
        (TaskOutput(name, name, BlockKind.BASE),),
        Sql("SELECT 1 AS a"),
    )
    kinds: tuple[Trigger, ...] = (DataTrigger(source), IntervalTrigger(_DAY), CronTrigger("0 3 * * *", "Europe/Berlin"))
    return BoundFlow(name, (Task(name, (variant,)),), triggers=(kinds[number % len(kinds)],))


def _fail_on_run(_run: Run, _limit: CatchUpLimit | None) -> None:
    raise AssertionError("nothing is due")
