"""A server's loop on a real catalog, tick by tick."""

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
from tidemill.model.run import Run, RunKind, RunState, build_claim_request
from tidemill.model.trigger import DataTrigger
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.engine import HEALTHY, EngineHealth
from tidemill.ports.records import Server
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.server import Execute, ServerIntervals, ServerLoop
from tidemill.storage import open_store

FLOW = BoundFlow("copy", COPY.tasks, triggers=(DataTrigger("a"),))
RHYTHM = ServerIntervals(tick=0.01, leader_lease=5.0)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    made = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}")
    made.apply_workflow(WorkflowSpec("w", CHANNELS, (FLOW,)))
    yield made
    made.close()


@pytest.fixture
def driver(catalog: SqlCatalog) -> Driver:
    return Driver(catalog, FakeClock())


def loop_of(catalog: SqlCatalog, execute: Execute, name: str = "one", tracks: int = 2) -> ServerLoop:
    return ServerLoop(catalog, Server(name, "work", tracks), execute, [], RHYTHM)


def served(loop: ServerLoop, until: Callable[[], bool]) -> None:
    """Let a loop run in its own thread until something holds, then drain it."""
    thread = threading.Thread(target=loop.run)
    thread.start()
    deadline = time.monotonic() + 30
    while not until() and time.monotonic() < deadline:
        time.sleep(0.01)
    loop.drain()
    thread.join()
    assert until()


def finishing(driver: Driver) -> Execute:
    def execute(run: Run, portion: CatchUpLimit | None) -> None:
        claim = driver.claim(run.id, build_claim_request(FLOW))
        driver.commit(claim, moves_of(claim, FLOW))

    return execute


def test_what_a_trigger_asks_for_is_executed(driver: Driver, catalog: SqlCatalog) -> None:
    driver.insert("a")
    loop = loop_of(catalog, finishing(driver))
    served(loop, lambda: bool(catalog.list_runs(state=RunState.FINISHED, subject="copy")))
    assert [s.state for s in catalog.list_servers()] == ["stopped"]


def test_a_server_that_is_woken_all_the_time_rests_between_its_looks(catalog: SqlCatalog) -> None:
    loop = ServerLoop(catalog, Server("one", "work", 1), lambda *_: None, [], ServerIntervals(tick=60.0, rest=0.2))
    looks: list[float] = []
    look = loop.tick

    def counted() -> bool:
        looks.append(time.monotonic())
        return look()

    loop.tick = counted  # type: ignore[method-assign]
    woken = 0

    def wake() -> bool:
        nonlocal woken
        loop.wake()
        woken += 1
        return len(looks) > 3

    served(loop, wake)
    assert woken > len(looks)
    assert all(later - earlier >= 0.19 for earlier, later in pairwise(looks[:4]))


def test_a_drained_server_waits_for_what_is_under_way(driver: Driver, catalog: SqlCatalog) -> None:
    driver.insert("a")
    begun, go_on = threading.Event(), threading.Event()

    def execute(run: Run, portion: CatchUpLimit | None) -> None:
        begun.set()
        go_on.wait(30)
        finishing(driver)(run, portion)

    loop = loop_of(catalog, execute)
    thread = threading.Thread(target=loop.run)
    thread.start()
    assert begun.wait(30)
    loop.drain()
    driver.insert("a")  # nobody will take this up
    go_on.set()
    thread.join(30)
    assert [r.state for r in catalog.list_runs(subject="copy")] == [RunState.FINISHED]
    assert len(catalog.list_due_triggers()) == 1


def test_only_the_leader_fires(driver: Driver, catalog: SqlCatalog) -> None:
    one, two = (loop_of(catalog, finishing(driver), name) for name in ("one", "two"))
    one.tick()
    driver.insert("a")
    two.tick()
    assert catalog.list_firings() == []
    one.tick()
    assert len(catalog.list_firings()) == 1
    for loop in (one, two):
        loop.drain()
        loop.run()


def test_a_run_that_goes_wrong_takes_nothing_else_with_it(
    driver: Driver, catalog: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    driver.insert("a")
    tried: list[int] = []

    def execute(run: Run, portion: CatchUpLimit | None) -> None:
        tried.append(run.id)
        if len(tried) == 1:
            raise RuntimeError("a surprise")
        finishing(driver)(run, portion)

    served(loop_of(catalog, execute), lambda: bool(catalog.list_runs(state=RunState.FINISHED, subject="copy")))
    assert "a surprise" in caplog.text


def test_a_catalog_that_does_not_answer_is_asked_again(
    driver: Driver, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver.insert("a")
    asked: list[int] = []
    real = catalog.list_due_triggers

    def due(limit: int = 100) -> list[int]:
        asked.append(limit)
        if len(asked) < 4:
            raise CatalogError("cut off")
        return real(limit)

    monkeypatch.setattr(catalog, "list_due_triggers", due)
    served(
        loop_of(catalog, finishing(driver)), lambda: bool(catalog.list_runs(state=RunState.FINISHED, subject="copy"))
    )
    assert caplog.text.count("does not answer") == 1


def test_no_more_runs_than_tracks(driver: Driver, catalog: SqlCatalog) -> None:
    names = [f"f{n}" for n in range(4)]
    bindings = tuple(BoundFlow(n, FLOW.tasks[:1]) for n in names)
    catalog.apply_workflow(WorkflowSpec("w", CHANNELS, bindings))
    for name in names:
        catalog.request_run(RunKind.FLOW, name)
    at_once: list[int] = []
    active = threading.Semaphore(0)
    count = 0
    lock = threading.Lock()

    def execute(run: Run, portion: CatchUpLimit | None) -> None:
        nonlocal count
        with lock:
            count += 1
            at_once.append(count)
        catalog.kill_run(run.id)
        with lock:
            count -= 1
        active.release()

    served(loop_of(catalog, execute, tracks=2), lambda: len(at_once) == 4)
    assert max(at_once) <= 2


class Moody(PlainEngine):
    """An engine that is lost, and comes back if it is started often enough."""

    def __init__(self) -> None:
        super().__init__(str)
        self.found = HEALTHY
        self.starts = 0
        self.needed = 1

    def report_health(self) -> EngineHealth:
        return self.found

    def start(self) -> None:
        self.starts += 1
        if self.starts < self.needed:
            raise EngineLost("still gone")
        self.found = HEALTHY


def loop_with(catalog: SqlCatalog, directory: Path, execute: Execute) -> tuple[ServerLoop, Moody]:
    engine = Moody()
    executor = Executor(catalog, open_store(str(directory / "blocks")), engine, "one")
    return ServerLoop(catalog, Server("one", "work", 2), execute, [], RHYTHM, executor=executor), engine


def states(catalog: SqlCatalog) -> list[tuple[str, bool]]:
    return [(s.state, s.leader) for s in catalog.list_servers()]


def test_a_server_without_an_engine_takes_nothing_and_says_so(
    driver: Driver, catalog: SqlCatalog, tmp_path: Path
) -> None:
    executed: list[int] = []
    loop, engine = loop_with(catalog, tmp_path, lambda run, _: executed.append(run.id))
    loop.tick()
    assert states(catalog) == [("serving", True)]
    engine.found = EngineHealth("gone", retry_in=5.0)
    driver.insert("a")
    loop.tick()
    assert states(catalog) == [("recovering", False)]
    assert (engine.starts, catalog.list_firings()) == (0, [])
    engine.found, engine.needed = EngineHealth("gone"), 2
    served(loop, lambda: bool(executed))
    assert engine.starts == 2
    assert catalog.list_firings() != []


def test_a_server_that_gives_up_its_engine_ends(driver: Driver, catalog: SqlCatalog, tmp_path: Path) -> None:
    loop, engine = loop_with(catalog, tmp_path, finishing(driver))
    driver.insert("a")
    engine.found = EngineHealth("out of memory", has_given_up=True)
    with pytest.raises(EngineLost, match="gave up: out of memory"):
        loop.run()
    assert (engine.starts, states(catalog)) == (0, [("stopped", False)])
    assert catalog.list_runs(subject="copy") == []


def test_a_server_gives_back_what_an_outage_left_it_with(driver: Driver, catalog: SqlCatalog, tmp_path: Path) -> None:
    loop, _ = loop_with(catalog, tmp_path, finishing(driver))
    executor = loop._executor
    assert executor is not None

    def cut_off() -> Run:
        driver.claim(driver.request(RunKind.FLOW, "copy"), build_claim_request(FLOW), owner="one")
        raise CatalogError("cut off")  # the answer is lost

    with pytest.raises(CatalogError):
        executor.process_runs.claim_run(cut_off)
    served(loop, lambda: bool(catalog.list_runs(state=RunState.FINISHED, subject="copy")))
