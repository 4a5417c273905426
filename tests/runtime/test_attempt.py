"""One attempt at a run that somebody asked for: whose fault a failure is decides whether there is another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.plain import PlainEngine

import tidemill as tm
from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.errors import BlockDamaged, CatalogError, EngineLost, RunFailed, StorageError, TidemillError
from tidemill.intake import load_file
from tidemill.model.run import MAX_LOST_ATTEMPTS, RunState
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.insert import Inserter
from tidemill.runtime.runs.requests import request_flow_run
from tidemill.storage import open_store

wf = tm.Workflow("attempts")
wf.input("words", "word string")
wf.table("copied", "word string")


@wf.task(writes={"copied": tm.Delta})
def copied(words: tm.New) -> dict[str, tm.Delta]:
    if any(r["word"] == "bad" for r in words):
        raise ValueError("bad word")
    return {"copied": words}


WORKFLOW = wf.declared()


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[Executor]:
    catalog: SqlCatalog = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}")
    catalog.apply_workflow(WORKFLOW)
    store = open_store(str(tmp_path / "blocks"))
    yield Executor(catalog, store, PlainEngine(store.locate_file), "me")
    catalog.close()


def insert(executor: Executor, directory: Path, word: str) -> None:
    path = directory / f"{word}.csv"
    path.write_text(f"word\n{word}\n")
    Inserter(executor, load_file).insert_file("words", path)


def attempt(executor: Executor) -> RunState:
    run = request_flow_run(executor.catalog, "copied")
    with pytest.raises((TidemillError, ValueError)):
        executor.attempt_run(run, WORKFLOW.bindings[0], {})
    return executor.catalog.read_run(run.id).state


def test_what_a_task_got_wrong_is_not_tried_beyond_what_it_allows(executor: Executor, tmp_path: Path) -> None:
    insert(executor, tmp_path, "bad")
    assert attempt(executor) is RunState.FAILED


def test_a_catalog_that_was_away_is_no_fault_of_the_tasks(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(executor, tmp_path, "good")

    def away(*_: object) -> None:
        raise CatalogError("the connection was cut")

    monkeypatch.setattr(executor.catalog, "commit_run", away)
    for _ in range(MAX_LOST_ATTEMPTS):
        assert attempt(executor) is RunState.READY
    monkeypatch.undo()
    (made,) = executor.attempt_run(request_flow_run(executor.catalog, "copied"), WORKFLOW.bindings[0], {}) or []
    assert made.rows == 1


def test_a_catalog_that_is_away_every_time_is_given_up(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(executor, tmp_path, "good")

    def away(*_: object) -> None:
        raise CatalogError("the connection was cut")

    monkeypatch.setattr(executor.catalog, "commit_run", away)
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
def test_only_what_may_pass_by_itself_is_given_back(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: TidemillError, state: RunState
) -> None:
    insert(executor, tmp_path, "good")

    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(executor.engine, "run_task", fails)
    assert attempt(executor) is state
    (run,) = executor.catalog.list_runs(subject="copied")
    assert (run.attempt, run.lost_attempts) == (1, int(state is RunState.WAITING))
