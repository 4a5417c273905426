"""Managers and evictions killed for real at every step: no dataset is half deleted and readable, no leaf lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import Engine, event
from tests.acceptance.mill import LATER
from tests.acceptance.test_crash import ROUNDS, Tripwire
from tests.catalog.driver import AT_ONCE
from tests.runtime.oneshots import Bench, Json, action, bench, compute_expected, workflow

from tidemill.model.run import ACTIVE_STATES, PENDING_STATES
from tidemill.model.states import DatasetState
from tidemill.runtime.maintenance.vacuum import VacuumService
from tidemill.runtime.oneshot.storage_report import StorageBudget, StorageBudgets
from tidemill.storage import local

STRIDE = 1 if ROUNDS else 61
"""In the suite, once at every sixty-first step."""
D = DatasetState
PASSED = {
    (D.TO_STORE, D.STORED),
    (D.TO_LEAF, D.LEAF),
    (D.STORED, D.PROCESSING),
    (D.LEAF, D.PROCESSING),
    (D.PROCESSING, D.DELETING),
    (D.DELETING, D.DELETED),
    (D.DELETED, D.TO_STORE),
    (D.DELETED, D.TO_LEAF),
}
"""Moves of datasets that the work makes; those that only a death or a rescue causes come on top."""

Work = Callable[[Bench], None]


def document(number: int) -> Json:
    """Every workflow shares its first actions with others; its second is pinned, its third has a copy."""
    return workflow(
        action(1, f"a{number % 2}"),
        action(2, f"b{number % 3}", 1, pinned=True),
        action(3, f"c{number}", 1, isManaged=False, path=f"out/{number}"),
        action(4, f"d{number}", 2, 3),
    )


def worked(mill: Bench, number: int) -> None:
    """A workflow to its end; then all goes that may, then what was pinned, for the workflow's budget, then its end."""
    made = mill.run(document(number))
    mill.shop.build_evictor().delete_evicted()  # what one that died had chosen
    movable = [
        d for d in mill.shop.dataset_catalog.list_datasets() if d.state is D.STORED and not d.claims and not d.pinned
    ]
    if movable:
        mill.shop.build_evictor().free_bytes(sum(d.bytes for d in movable))
    assert mill.state(made, 2) is D.STORED
    mill.shop.pin_dataset(mill.dataset(made, 2).identity, pinned=False)
    within_budget(mill)
    mill.shop.drop_dataset(mill.dataset(made, 4).identity)


def within_budget(mill: Bench) -> None:
    """A budget that leaves just keep."""
    leaves = sum(d.bytes for d in mill.shop.dataset_catalog.list_datasets() if d.state is D.LEAF)
    done = (
        replace(mill.shop, budgets=StorageBudgets(None, {"words": StorageBudget(leaves, 1.0)}))
        .build_evictor()
        .enforce_budgets()
    )
    assert done is None or not done.problems


def killed_at(step: int, url: str, root: Path, number: int) -> bool:
    """Do the work in a process that dies at the given step; False if it finished before that."""
    child = os.fork()
    if child == 0:
        wire = Tripwire(step)
        try:
            with bench(url, root, owner=f"doomed-{step}") as mill:
                event.listen(Engine, "before_cursor_execute", wire.step)
                event.listen(Engine, "commit", wire.step)
                wire.guard(mill.store, "stage_directory", "publish_files", "delete_files")
                wire.guard(mill.engine, "run_task")
                wire.guard(local, "_delete_file")
                worked(mill, number)
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the work failed by itself"
    return os.WIFSIGNALED(status)


def check_readable(mill: Bench, contents: dict[str, str]) -> None:
    """Whatever can be read is whole and right, and nothing that is pinned is about to go."""
    for found in mill.shop.dataset_catalog.list_datasets():
        if found.is_readable:
            read = mill.engine.read(found.to_snapshot("x"))
            assert contents.setdefault(found.identity, read) == read
        assert not found.pinned or found.state not in (D.PROCESSING, D.STORED_TO_DELETE)


def leaves(mill: Bench) -> set[str]:
    return {d.identity for d in mill.shop.dataset_catalog.list_datasets() if d.state is D.LEAF}


@pytest.mark.parametrize("round_", range(max(ROUNDS, 1)))
def test_killed_anywhere_nothing_is_half_deleted_and_no_leaf_is_lost(url: str, tmp_path: Path, round_: int) -> None:
    contents: dict[str, str] = {}
    kept: set[str] = set()
    for number in count(1):
        died = killed_at(number * STRIDE, url, tmp_path, number)
        with bench(url, tmp_path, later=LATER) as mill:
            assert kept <= leaves(mill)
            check_readable(mill, contents)
            mill.catalog.reclaim_expired_runs()
            mill.check(document(number), mill.run(document(number)))
            worked(mill, number)
            check_at_rest(mill, number, tmp_path)
            kept |= leaves(mill)
        if not died:
            break
    with bench(url, tmp_path) as mill:
        assert moves(mill) >= PASSED
    assert number * STRIDE > 150, "there are more steps than that; the tripwire missed some"


def moves(mill: Bench) -> set[tuple[str, str]]:
    """Every move that a dataset has made."""
    happened = mill.catalog.list_events(limit=1_000_000)
    return {(e.detail["before"], e.detail["after"]) for e in happened if e.kind == "dataset.moved"}


def check_at_rest(mill: Bench, number: int, root: Path) -> None:
    """Nothing is claimed, nothing is going, nothing is left over, and the copy is where it was wanted."""
    datasets = mill.shop.dataset_catalog.list_datasets()
    assert {d.state for d in datasets} <= {D.LEAF, D.DELETED}
    assert all(d.claims == 0 for d in datasets)
    assert not [r for s in (*PENDING_STATES, *ACTIVE_STATES) for r in mill.catalog.list_runs(state=s)]
    VacuumService(mill.shop.executor, grace=AT_ONCE).remove_due_files()
    assert mill.find_inconsistencies() == set()
    placed = sorted((root / "out" / str(number)).iterdir())
    assert [mill.engine.read_file(str(path)) for path in placed] == [compute_expected(document(number), 3)] * len(
        placed
    )
    assert len(placed) == 2
