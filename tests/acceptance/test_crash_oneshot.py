"""Executors and evictions killed at every step: no dataset is partly deleted and readable, no leaf is lost."""

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
from tests.databases import LONG_ON_POSTGRESQL
from tests.runtime.oneshots import Bench, Json, action, bench, compute_expected, workflow

from tidemill.model.run import ACTIVE_STATES, PENDING_STATES
from tidemill.model.states import DatasetState
from tidemill.runtime.maintenance.vacuum import VacuumService
from tidemill.runtime.oneshot.storage_report import StorageBudget, StorageBudgets
from tidemill.storage import local

STRIDE = 1 if ROUNDS else 61
"""In the suite, every sixty-first step."""
D = DatasetState
EXPECTED_MOVES = {
    (D.TO_STORE, D.STORED),
    (D.TO_LEAF, D.LEAF),
    (D.STORED, D.PROCESSING),
    (D.LEAF, D.PROCESSING),
    (D.PROCESSING, D.DELETING),
    (D.DELETING, D.DELETED),
    (D.DELETED, D.TO_STORE),
    (D.DELETED, D.TO_LEAF),
}
"""State changes of datasets that the work causes; a kill or a recovery causes others."""

Work = Callable[[Bench], None]


def document(number: int) -> Json:
    """Each workflow shares its first actions with others; its second is pinned, its third is exported."""
    return workflow(
        action(1, f"a{number % 2}"),
        action(2, f"b{number % 3}", 1, pinned=True),
        action(3, f"c{number}", 1, isManaged=False, path=f"out/{number}"),
        action(4, f"d{number}", 2, 3),
    )


def run_and_evict(mill: Bench, number: int) -> None:
    """Run a workflow; evict all datasets that may be, then the unpinned one by a budget; then drop the last one."""
    submission = mill.run(document(number))
    mill.shop.build_evictor().delete_evicted()  # finish the evictions of a killed process
    movable = [d for d in mill.catalog.datasets.list() if d.state is D.STORED and not d.claims and not d.pinned]
    if movable:
        mill.shop.build_evictor().free_bytes(sum(d.bytes for d in movable))
    assert mill.state(submission, 2) is D.STORED
    mill.shop.pin_dataset(mill.dataset(submission, 2).identity, pinned=False)
    enforce_budget(mill)
    mill.shop.drop_dataset(mill.dataset(submission, 4).identity)


def enforce_budget(mill: Bench) -> None:
    """Enforce a budget that only the leaves fit in."""
    leaves = sum(d.bytes for d in mill.catalog.datasets.list() if d.state is D.LEAF)
    result = (
        replace(mill.shop, budgets=StorageBudgets(None, {"words": StorageBudget(leaves, 1.0)}))
        .build_evictor()
        .enforce_budgets()
    )
    assert result is None or not result.problems


def is_killed_at(step: int, url: str, root: Path, number: int) -> bool:
    """Do the work in a process that is killed at the given step; False if it finished before that."""
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
                run_and_evict(mill, number)
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the work failed by itself"
    return os.WIFSIGNALED(status)


def check_readable(mill: Bench, contents: dict[str, str]) -> None:
    """Check that every readable dataset is complete and right, and that no pinned dataset is being deleted."""
    for dataset in mill.catalog.datasets.list():
        if dataset.is_readable:
            read = mill.engine.read(dataset.to_snapshot("x"))
            assert contents.setdefault(dataset.identity, read) == read
        assert not dataset.pinned or dataset.state not in (D.PROCESSING, D.STORED_TO_DELETE)


def find_leaves(mill: Bench) -> set[str]:
    return {d.identity for d in mill.catalog.datasets.list() if d.state is D.LEAF}


@pytest.mark.long
@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
@pytest.mark.parametrize("round_", range(max(ROUNDS, 1)))
def test_a_process_killed_at_any_step_leaves_no_partly_deleted_dataset_and_loses_no_leaf(
    url: str, tmp_path: Path, round_: int
) -> None:
    contents: dict[str, str] = {}
    known_leaves: set[str] = set()
    for number in count(1):
        was_killed = is_killed_at(number * STRIDE, url, tmp_path, number)
        with bench(url, tmp_path, later=LATER) as mill:
            assert known_leaves <= find_leaves(mill)
            check_readable(mill, contents)
            mill.catalog.runs.reclaim_expired()
            mill.check(document(number), mill.run(document(number)))
            run_and_evict(mill, number)
            check_at_rest(mill, number, tmp_path)
            known_leaves |= find_leaves(mill)
        if not was_killed:
            break
    with bench(url, tmp_path) as mill:
        assert list_moves(mill) >= EXPECTED_MOVES
    assert number * STRIDE > 150, "there are more steps than that; the tripwire missed some"


def list_moves(mill: Bench) -> set[tuple[str, str]]:
    """Every state change of a dataset so far."""
    events = mill.catalog.events.list(limit=1_000_000)
    return {(e.detail["before"], e.detail["after"]) for e in events if e.kind == "dataset.moved"}


def check_at_rest(mill: Bench, number: int, root: Path) -> None:
    """Check that nothing is claimed, being deleted or left over, and that the export is at its path."""
    datasets = mill.catalog.datasets.list()
    assert {d.state for d in datasets} <= {D.LEAF, D.DELETED}
    assert all(d.claims == 0 for d in datasets)
    assert not [r for s in (*PENDING_STATES, *ACTIVE_STATES) for r in mill.catalog.runs.list(state=s)]
    VacuumService(mill.shop.executor, grace=AT_ONCE).remove_due_files()
    assert mill.find_inconsistencies() == set()
    exported = sorted((root / "out" / str(number)).iterdir())
    assert [mill.engine.read_file(str(path)) for path in exported] == [compute_expected(document(number), 3)] * len(
        exported
    )
    assert len(exported) == 2
