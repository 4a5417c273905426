"""A server's loop on a real catalog."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests.acceptance.plain import PlainEngine
from tests.catalog.driver import CHANNELS, COPY, Driver, FakeClock, moves_of

from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.errors import CatalogError, EngineLost
from tidemill.model.flow import BoundFlow
from tidemill.model.health import HEALTHY, EngineHealth
from tidemill.model.run import Run, RunKind, RunState, build_claim_request
from tidemill.model.trigger import DataTrigger
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.records import Server
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.server import Execute, ServerIntervals, ServerLoop
from tidemill.storage import open_store

FLOW = BoundFlow("copy", COPY.tasks, triggers=(DataTrigger("a"),))
INTERVALS = ServerIntervals(tick=0.01, leader_lease=5.0)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}")
    catalog.workflows.apply(WorkflowSpec("w", CHANNELS, (FLOW,)))
    yield catalog
    catalog.close()


@pytest.fixture
def driver(catalog: SqlCatalog) -> Driver:
    return Driver(catalog, FakeClock())


def build_loop(catalog: SqlCatalog, execute: Execute, name: str = "one", tracks: int = 2) -> ServerLoop:
    return ServerLoop(catalog, Server(name, "work", tracks), execute, [], INTERVALS)


def run_until(loop: ServerLoop, condition: Callable[[], bool]) -> None:
    """Run a loop in a thread until a condition is true, then drain it."""
    thread = threading.Thread(target=loop.run)
    thread.start()
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    loop.drain()
    thread.join()
    assert condition()


def build_execute(driver: Driver) -> Execute:
    def execute(run: Run, limit: CatchUpLimit | None) -> None:
        claim = driver.claim(run.id, build_claim_request(FLOW))
        driver.commit(claim, moves_of(claim, FLOW))

    return execute


def test_a_run_that_a_trigger_requests_is_executed(driver: Driver, catalog: SqlCatalog) -> None:
    driver.insert("a")
    loop = build_loop(catalog, build_execute(driver))
    run_until(loop, lambda: bool(catalog.runs.list(state=RunState.FINISHED, subject="copy")))
    assert [s.state for s in catalog.servers.list()] == ["stopped"]


def test_a_server_that_is_woken_constantly_rests_between_ticks(catalog: SqlCatalog) -> None:
    loop = ServerLoop(catalog, Server("one", "work", 1), lambda *_: None, [], ServerIntervals(tick=60.0, rest=0.2))
    ticks: list[float] = []
    tick = loop.tick

    def count_tick() -> bool:
        ticks.append(time.monotonic())
        return tick()

    loop.tick = count_tick  # type: ignore[method-assign]
    woken = 0

    def wake() -> bool:
        nonlocal woken
        loop.wake()
        woken += 1
        return len(ticks) > 3

    run_until(loop, wake)
    assert woken > len(ticks)
    assert all(later - earlier >= 0.19 for earlier, later in pairwise(ticks[:4]))


def test_a_drained_server_waits_for_active_runs(driver: Driver, catalog: SqlCatalog) -> None:
    driver.insert("a")
    started, proceed = threading.Event(), threading.Event()

    def execute(run: Run, limit: CatchUpLimit | None) -> None:
        started.set()
        proceed.wait(30)
        build_execute(driver)(run, limit)

    loop = build_loop(catalog, execute)
    thread = threading.Thread(target=loop.run)
    thread.start()
    assert started.wait(30)
    loop.drain()
    driver.insert("a")  # no server will process this
    proceed.set()
    thread.join(30)
    assert [r.state for r in catalog.runs.list(subject="copy")] == [RunState.FINISHED]
    assert len(catalog.triggers.list_due()) == 1


def test_only_the_leader_fires_triggers(driver: Driver, catalog: SqlCatalog) -> None:
    one, two = (build_loop(catalog, build_execute(driver), name) for name in ("one", "two"))
    one.tick()
    driver.insert("a")
    two.tick()
    assert catalog.triggers.list_firings() == []
    one.tick()
    assert len(catalog.triggers.list_firings()) == 1
    for loop in (one, two):
        loop.drain()
        loop.run()


def test_a_failed_run_does_not_affect_others(
    driver: Driver, catalog: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    driver.insert("a")
    attempts: list[int] = []

    def execute(run: Run, limit: CatchUpLimit | None) -> None:
        attempts.append(run.id)
        if len(attempts) == 1:
            raise RuntimeError("a surprise")
        build_execute(driver)(run, limit)

    run_until(build_loop(catalog, execute), lambda: bool(catalog.runs.list(state=RunState.FINISHED, subject="copy")))
    assert "a surprise" in caplog.text


def test_a_catalog_that_does_not_answer_is_retried(
    driver: Driver, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver.insert("a")
    requests: list[int] = []
    real = catalog.triggers.list_due

    def list_due(limit: int = 100) -> list[int]:
        requests.append(limit)
        if len(requests) < 4:
            raise CatalogError("cut off")
        return real(limit)

    monkeypatch.setattr(catalog.triggers, "list_due", list_due)
    run_until(
        build_loop(catalog, build_execute(driver)),
        lambda: bool(catalog.runs.list(state=RunState.FINISHED, subject="copy")),
    )
    assert caplog.text.count("does not answer") == 1


def test_a_server_executes_no_more_runs_than_tracks(driver: Driver, catalog: SqlCatalog) -> None:
    names = [f"f{n}" for n in range(4)]
    bindings = tuple(BoundFlow(n, FLOW.tasks[:1]) for n in names)
    catalog.workflows.apply(WorkflowSpec("w", CHANNELS, bindings))
    for name in names:
        catalog.runs.request(RunKind.FLOW, name)
    counts: list[int] = []
    active = threading.Semaphore(0)
    count = 0
    lock = threading.Lock()

    def execute(run: Run, limit: CatchUpLimit | None) -> None:
        nonlocal count
        with lock:
            count += 1
            counts.append(count)
        catalog.runs.kill(run.id)
        with lock:
            count -= 1
        active.release()

    run_until(build_loop(catalog, execute, tracks=2), lambda: len(counts) == 4)
    assert max(counts) <= 2


class UnreliableEngine(PlainEngine):
    """An engine that is lost and recovers after a number of starts."""

    def __init__(self) -> None:
        super().__init__(str)
        self.health = HEALTHY
        self.starts = 0
        self.required_starts = 1

    def report_health(self) -> EngineHealth:
        return self.health

    def start(self) -> None:
        self.starts += 1
        if self.starts < self.required_starts:
            raise EngineLost("still gone")
        self.health = HEALTHY


def build_loop_with_engine(
    catalog: SqlCatalog, directory: Path, execute: Execute
) -> tuple[ServerLoop, UnreliableEngine]:
    engine = UnreliableEngine()
    executor = Executor(catalog, open_store(str(directory / "blocks")), engine, "one")
    return ServerLoop(catalog, Server("one", "work", 2), execute, [], INTERVALS, executor=executor), engine


def list_states(catalog: SqlCatalog) -> list[tuple[str, bool]]:
    return [(s.state, s.leader) for s in catalog.servers.list()]


def test_a_server_without_an_engine_takes_no_runs_and_reports_it(
    driver: Driver, catalog: SqlCatalog, tmp_path: Path
) -> None:
    executed: list[int] = []
    loop, engine = build_loop_with_engine(catalog, tmp_path, lambda run, _: executed.append(run.id))
    loop.tick()
    assert list_states(catalog) == [("serving", True)]
    engine.health = EngineHealth("gone", retry_in=5.0)
    driver.insert("a")
    loop.tick()
    assert list_states(catalog) == [("recovering", False)]
    assert (engine.starts, catalog.triggers.list_firings()) == (0, [])
    engine.health, engine.required_starts = EngineHealth("gone"), 2
    run_until(loop, lambda: bool(executed))
    assert engine.starts == 2
    assert catalog.triggers.list_firings() != []


def test_a_server_that_gives_up_its_engine_stops(driver: Driver, catalog: SqlCatalog, tmp_path: Path) -> None:
    loop, engine = build_loop_with_engine(catalog, tmp_path, build_execute(driver))
    driver.insert("a")
    engine.health = EngineHealth("out of memory", has_given_up=True)
    with pytest.raises(EngineLost, match="gave up: out of memory"):
        loop.run()
    assert (engine.starts, list_states(catalog)) == (0, [("stopped", False)])
    assert catalog.runs.list(subject="copy") == []


def test_a_server_releases_runs_whose_claim_was_lost_in_an_outage(
    driver: Driver, catalog: SqlCatalog, tmp_path: Path
) -> None:
    loop, _ = build_loop_with_engine(catalog, tmp_path, build_execute(driver))
    executor = loop._executor
    assert executor is not None

    def claim_and_fail() -> Run:
        driver.claim(driver.request(RunKind.FLOW, "copy"), build_claim_request(FLOW), owner="one")
        raise CatalogError("cut off")  # the answer is lost

    with pytest.raises(CatalogError):
        executor.process_runs.claim_run(claim_and_fail)
    run_until(loop, lambda: bool(catalog.runs.list(state=RunState.FINISHED, subject="copy")))
