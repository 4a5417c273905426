"""Runs that a process gives up, its own or a dead process's: their firings stay due."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.errors import Conflict
from tidemill.model.run import Run, RunState, build_claim_request

wf = tm.Workflow("copying")
wf.input("words", "word string")
wf.table("copies", "word string")


@wf.task(writes={"copies": tm.Delta}, triggers=[tm.on("words")])
def copies(words: tm.New) -> dict[str, tm.Delta]:
    return {"copies": words}


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    mill = Mill(wf.build_spec(), tmp_path)
    yield mill
    mill.close()


def fire(mill: Mill) -> Run:
    mill.insert("words", "tide")
    (run,) = mill.fire_due_triggers()
    return run


def read_firing_run(mill: Mill) -> Run:
    (firing,) = mill.catalog.triggers.list_firings()
    return mill.catalog.runs.read(firing.run)


def test_the_firing_of_a_run_whose_process_died_stays_due_when_the_next_run_fails(
    mill: Mill, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = fire(mill)
    mill.catalog.runs.claim(dead.id, build_claim_request(mill.binding("copies")), owner="dead", lease=30.0)
    mill.now += 31

    def fail(*_: object, **__: object) -> None:
        raise Conflict("another run was faster")

    monkeypatch.setattr(mill.executor.engine, "run_task", fail)
    with pytest.raises(Conflict, match="faster"):
        mill.executor.run_flow(mill.binding("copies"), {})
    assert mill.catalog.runs.read(dead.id).state is RunState.KILLED
    assert read_firing_run(mill).state is RunState.WAITING


def test_a_firing_that_a_waiting_run_absorbed_stays_due_when_that_run_is_given_up(
    mill: Mill, monkeypatch: pytest.MonkeyPatch
) -> None:
    fired: list[Run] = []

    def claim(*_: object, **__: object) -> None:
        fired.append(fire(mill))
        raise Conflict("the flow was changed")

    monkeypatch.setattr(mill.catalog.runs, "claim", claim)
    with pytest.raises(Conflict, match="changed"):
        mill.executor.run_flow(mill.binding("copies"), {})
    assert mill.catalog.runs.read(fired[0].id).state is RunState.KILLED
    assert read_firing_run(mill).state is RunState.WAITING


def test_a_freshness_target_whose_run_is_given_up_is_due_again(tmp_path: Path) -> None:
    fresh = tm.Workflow("fresh")
    fresh.input("words", "word string")
    fresh.sql("kept", "SELECT * FROM words", target_lag="10 seconds")
    mill = Mill(fresh.build_spec(), tmp_path)
    mill.insert("words", "tide")
    mill.now += 11
    (run,) = mill.fire_due_triggers()
    mill.catalog.runs.withdraw(run.id)
    assert mill.fire_due_triggers() == []  # it waits
    mill.now += 61
    assert len(mill.fire_due_triggers()) == 1
    mill.close()


def test_a_run_that_a_process_has_started_is_not_withdrawn(mill: Mill) -> None:
    run = fire(mill)
    mill.catalog.runs.claim(run.id, build_claim_request(mill.binding("copies")), owner="other", lease=30.0)
    mill.catalog.runs.withdraw(run.id)
    assert mill.catalog.runs.read(run.id).state is RunState.SUBMITTED
