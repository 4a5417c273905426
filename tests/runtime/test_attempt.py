"""One attempt at a requested run: the cause of a failure decides whether it is retried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.plain import PlainEngine

import tidemill as tm
from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.errors import BlockDamaged, CatalogError, EngineLost, RunFailed, StorageError, TidemillError
from tidemill.intake.loader import load_file
from tidemill.model.run import MAX_LOST_ATTEMPTS, RunState
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.insert import Inserter
from tidemill.runtime.runs.requests import request_flow_run
from tidemill.storage import open_store

wf = tm.Workflow("attempts")
wf.input("words", "word string")
wf.table("copies", "word string")


@wf.task(writes={"copies": tm.Delta})
def copies(words: tm.New) -> dict[str, tm.Delta]:
    if any(r["word"] == "bad" for r in words):
        raise ValueError("bad word")
    return {"copies": words}


WORKFLOW = wf.build_spec()


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[Executor]:
    catalog: SqlCatalog = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}")
    catalog.workflows.apply(WORKFLOW)
    store = open_store(str(tmp_path / "blocks"))
    yield Executor(catalog, store, PlainEngine(store.locate_file), "me")
    catalog.close()


def insert(executor: Executor, directory: Path, word: str) -> None:
    path = directory / f"{word}.csv"
    path.write_text(f"word\n{word}\n")
    Inserter(executor, load_file).insert_file("words", path)


def attempt(executor: Executor) -> RunState:
    run = request_flow_run(executor.catalog, "copies")
    with pytest.raises((TidemillError, ValueError)):
        executor.attempt_run(run.id, executor.build_flow_work(WORKFLOW.bindings[0], {}))
    return executor.catalog.runs.read(run.id).state


def test_a_task_error_is_not_retried_beyond_its_attempts(executor: Executor, tmp_path: Path) -> None:
    insert(executor, tmp_path, "bad")
    assert attempt(executor) is RunState.FAILED


def test_a_catalog_outage_does_not_count_as_a_failed_attempt(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(executor, tmp_path, "good")

    def fail(*_: object) -> None:
        raise CatalogError("the connection was cut")

    monkeypatch.setattr(executor.catalog.runs, "commit", fail)
    for _ in range(MAX_LOST_ATTEMPTS):
        assert attempt(executor) is RunState.READY
    monkeypatch.undo()
    run = request_flow_run(executor.catalog, "copies")
    (block,) = executor.attempt_run(run.id, executor.build_flow_work(WORKFLOW.bindings[0], {})) or []
    assert block.rows == 1


def test_a_run_fails_after_too_many_catalog_outages(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(executor, tmp_path, "good")

    def fail(*_: object) -> None:
        raise CatalogError("the connection was cut")

    monkeypatch.setattr(executor.catalog.runs, "commit", fail)
    assert [attempt(executor) for _ in range(MAX_LOST_ATTEMPTS + 1)] == [RunState.READY] * MAX_LOST_ATTEMPTS + [
        RunState.FAILED
    ]


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (EngineLost("the Java process was killed", retry_in=2.0), RunState.WAITING),
        (StorageError("the disk is full"), RunState.WAITING),
        (BlockDamaged("a file is missing"), RunState.FAILED),
        (RunFailed("no such column"), RunState.FAILED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_only_transient_errors_are_retried(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: TidemillError, state: RunState
) -> None:
    insert(executor, tmp_path, "good")

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(executor.engine, "run_task", fail)
    assert attempt(executor) is state
    (run,) = executor.catalog.runs.list(subject="copies")
    assert (run.attempt, run.lost_attempts) == (1, int(state is RunState.WAITING))
