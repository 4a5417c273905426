"""Processes whose clocks are wrong: all compared times come from the catalog's clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.acceptance.plain import PlainEngine

import tidemill as tm
from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.errors import RunFailed
from tidemill.intake.loader import load_file
from tidemill.model.run import RunKind, RunState
from tidemill.ports.records import Server
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.insert import Inserter
from tidemill.runtime.runs.server import ServerIntervals, ServerLoop
from tidemill.storage import open_store

wf = tm.Workflow("clocks")
wf.input("words", "word string")
wf.table("copies", "word string")

FAILURES: list[str] = []


@wf.task(writes={"copies": tm.Delta}, attempts=2, backoff="10s")
def copies(words: tm.New) -> dict[str, tm.Delta]:
    if FAILURES:
        raise RunFailed(FAILURES.pop())
    return {"copies": words}


WORKFLOW = wf.build_spec()


class CatalogClock:
    """The catalog's clock, which differs from the process's clock."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture(params=[1_000.0, 1e11], ids=["this process is ahead", "this process is behind"])
def clock(request: pytest.FixtureRequest) -> CatalogClock:
    return CatalogClock(request.param)


@pytest.fixture
def executor(tmp_path: Path, clock: CatalogClock) -> Iterator[Executor]:
    catalog: SqlCatalog = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", clock)
    catalog.workflows.apply(WORKFLOW)
    store = open_store(str(tmp_path / "blocks"))
    yield replace(Executor(catalog, store, PlainEngine(store.locate_file), "me"), sleep=clock.sleep)
    catalog.close()


def test_a_run_is_retried_by_the_catalogs_clock(executor: Executor, clock: CatalogClock, tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text("word\ngood\n")
    Inserter(executor, load_file).insert_file("words", path)
    FAILURES.append("not now")
    run, _ = executor.run_flow(WORKFLOW.bindings[0], {})
    assert (run.state, run.attempt) == (RunState.FINISHED, 2)
    assert clock.slept == [10.0]


def test_a_server_dispatches_by_the_catalogs_clock(executor: Executor, clock: CatalogClock) -> None:
    loop = ServerLoop(executor.catalog, Server("one", "work", 1), lambda *_: None, [], ServerIntervals())
    times: list[float] = []
    loop._dispatcher.start_runs = lambda _runnable, now: times.append(now) or []  # type: ignore[method-assign,func-returns-value]
    executor.catalog.runs.request(RunKind.FLOW, "copies")
    loop.tick()
    assert times == [pytest.approx(clock.now, abs=60.0)]
    loop.drain()
    loop.run()
