"""Compaction and collection stopped half-way, in every way there is: nothing is harmed, and the rest is done later."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from tests.acceptance.mill import HISTORY, LIMITS, WORKFLOW, Mill, batch, expected, opened
from tests.catalog.driver import AT_ONCE

from tidemill.algebra.reference import is_same_bag
from tidemill.model.block import BlockState
from tidemill.model.run import ACTIVE_STATES, RunKind, RunState
from tidemill.ports.records import Server
from tidemill.runtime.inspect.status import read_status
from tidemill.runtime.maintenance import vacuum
from tidemill.runtime.maintenance.compaction import Compactor
from tidemill.runtime.maintenance.service import OVERRIDE, PAUSED, MaintenanceRules, MaintenanceService
from tidemill.runtime.maintenance.vacuum import MaintenanceResult, VacuumService
from tidemill.runtime.runs.server import PeriodicTask, ServerIntervals, ServerLoop

CHANNELS = ("events", "firsts", "words")
RULES = MaintenanceRules(history=HISTORY, limits=LIMITS, grace=AT_ONCE)
BATCHES = 4


@pytest.fixture
def mill(url: str, tmp_path: Path) -> Iterator[Mill]:
    """Something is due on every channel."""
    with opened(url, tmp_path / "blocks") as found:
        found.catalog.apply_workflow(WORKFLOW)
        for number in range(BATCHES):
            refreshed(found, tmp_path, number)
        yield found


def refreshed(mill: Mill, directory: Path, number: int) -> None:
    mill.insert(batch(directory, number))
    mill.run()


def upkeep(mill: Mill, rules: MaintenanceRules = RULES) -> MaintenanceService:
    return MaintenanceService(mill.executor, dict, rules)


def check(mill: Mill, batches: int = BATCHES) -> None:
    """What anybody reads is as it was."""
    assert is_same_bag(mill.content("firsts"), expected(batches))
    assert len(mill.content("events")) == 4 * batches


def compactions(mill: Mill, state: RunState = RunState.FINISHED) -> int:
    return sum(r.kind is RunKind.COMPACTION for r in mill.catalog.list_runs(state=state, limit=10_000))


def due(mill: Mill) -> list[str]:
    return [c for c in CHANNELS if Compactor(mill.executor, {}, LIMITS).assess_compaction(c).compaction]


def done_in_the_end(mill: Mill, batches: int = BATCHES) -> None:
    """Whoever keeps house next does what is left, and leaves nothing behind."""
    upkeep(mill).run_maintenance()
    assert due(mill) == []
    assert mill.leftovers() == set()
    assert not [b for b in mill.catalog.list_blocks(limit=1000) if b.state is BlockState.RESERVED]
    check(mill, batches)


def interposed(monkeypatch: pytest.MonkeyPatch, door: object, name: str, before: Callable[[], None]) -> None:
    """Do something whenever a method of a door is called, before what it does."""
    call = getattr(door, name)

    def calling(*args: object, **kwargs: object) -> object:
        before()
        return call(*args, **kwargs)

    monkeypatch.setattr(type(door), name, lambda _self, *args, **kwargs: calling(*args, **kwargs))


def test_after_a_run_it_is_done_on_what_was_written_and_on_what_was_read(mill: Mill) -> None:
    assert set(due(mill)) == {"events", "firsts", "words"}
    newest = mill.catalog.list_blocks("firsts", limit=1)
    assert [b.seq % LIMITS.fan for b in newest] == [0]
    upkeep(mill).maintain_after(newest)
    assert due(mill) == []
    check(mill)


def test_after_few_small_blocks_nobody_looks(mill: Mill, tmp_path: Path) -> None:
    refreshed(mill, tmp_path, BATCHES)
    upkeep(mill, replace(RULES, limits=replace(LIMITS, floor=1000))).maintain_after(
        mill.catalog.list_blocks("firsts", limit=1)
    )
    assert compactions(mill) == 0


# -- between any two steps ----------------------------------------------------------------------------------------


def test_stopped_before_any_step_and_taken_up_again(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum, "REMOVAL_BATCH", 1)
    with opened(url, tmp_path / "blocks") as mill:
        mill.catalog.apply_workflow(WORKFLOW)
        for steps in count():
            refreshed(mill, tmp_path, 2 * steps)
            refreshed(mill, tmp_path, 2 * steps + 1)
            left = iter([True] * steps)
            stopped = VacuumService(mill.executor, lambda left=left: next(left, False), AT_ONCE)  # type: ignore[misc]
            stopped.maintain_channels(CHANNELS, Compactor(mill.executor, {}, LIMITS), history=HISTORY)
            check(mill, 2 * steps + 2)
            if next(left, False):
                break  # it came to its end before it was stopped
            done_in_the_end(mill, 2 * steps + 2)
        assert steps > 8, "there are more steps than that"


def test_files_that_were_not_removed_any_more_are_removed_later(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum, "REMOVAL_BATCH", 1)
    stopped = upkeep(mill)
    interposed(monkeypatch, mill.store, "delete_files", stopped.stopping.set)
    stopped.run_maintenance()
    assert mill.leftovers(), "it was stopped after the first file"
    check(mill)
    monkeypatch.undo()
    done_in_the_end(mill)


# -- by the settings, by a command --------------------------------------------------------------------------------


def test_what_is_not_automatic_is_done_when_somebody_asks(mill: Mill) -> None:
    asked = upkeep(mill, replace(RULES, automatic=False))
    asked.run_maintenance()
    asked.maintain_after(mill.catalog.list_blocks())
    assert compactions(mill) == 0
    assert len(asked.maintain_channels().minor_compactions) > 0
    check(mill)


def test_a_pause_ends_upkeep_after_the_step_that_is_under_way(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = mill.executor.engine
    interposed(monkeypatch, engine, "write_view", lambda: mill.catalog.override_settings({OVERRIDE: PAUSED}))
    kept = upkeep(mill)
    kept.run_maintenance()
    kept.run_maintenance()
    kept.maintain_after(mill.catalog.list_blocks())
    assert compactions(mill) == 1
    assert all(b.state is not BlockState.COLLECTED for b in mill.catalog.list_blocks(limit=1000))
    check(mill)
    monkeypatch.undo()
    mill.catalog.override_settings({OVERRIDE: None})
    done_in_the_end(mill)


def test_a_compaction_is_killed_while_it_writes(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill() -> None:
        (run,) = (r for state in ACTIVE_STATES for r in mill.catalog.list_runs(state=state))
        mill.catalog.kill_run(run.id)

    interposed(monkeypatch, mill.executor.engine, "write_view", kill)
    done = upkeep(mill).maintain_channels(["events"])
    assert (done.minor_compactions, done.major_compactions, done.problems) == (
        (),
        (),
        (),
    )  # its run says that it was killed
    assert compactions(mill, RunState.KILLED) == 1
    check(mill)
    monkeypatch.undo()
    done_in_the_end(mill)


# -- when its server ends -----------------------------------------------------------------------------------------


class Slow:
    """A compaction that is in the middle of writing until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.go.wait(30)


def serving(mill: Mill, kept: MaintenanceService) -> tuple[ServerLoop, threading.Thread]:
    chores = [PeriodicTask("maintenance", 3600.0, kept.run_maintenance)]
    loop = ServerLoop(
        mill.catalog, Server("one", "work", 1), lambda *_: None, chores, ServerIntervals(), stopping=kept.stopping
    )
    thread = threading.Thread(target=loop.run)
    thread.start()
    return loop, thread


def test_a_server_that_drains_ends_the_compaction_under_way_and_begins_no_other(
    mill: Mill, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    interposed(monkeypatch, mill.executor.engine, "write_view", slow)
    loop, thread = serving(mill, upkeep(mill))
    assert slow.begun.wait(30)
    assert [r.kind for r in read_status(mill.catalog).active] == [RunKind.COMPACTION]
    loop.drain()
    slow.go.set()
    thread.join(30)
    assert not thread.is_alive()
    assert compactions(mill) == 1
    assert due(mill), "the others are left"
    monkeypatch.undo()
    done_in_the_end(mill)


def test_a_server_that_is_told_twice_gives_the_compaction_up(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    interposed(monkeypatch, mill.executor.engine, "write_view", slow)
    loop, thread = serving(mill, upkeep(mill))
    assert slow.begun.wait(30)
    loop.drain()
    mill.executor.abandon_runs()
    slow.go.set()
    thread.join(30)
    assert not thread.is_alive()
    assert (compactions(mill), compactions(mill, RunState.FAILED)) == (0, 1)
    check(mill)
    monkeypatch.undo()
    done_in_the_end(mill)


# -- what can be seen ---------------------------------------------------------------------------------------------


def test_upkeep_says_what_it_did_and_what_it_could_not_do(
    mill: Mill, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidemill.server")
    upkeep(mill).run_maintenance()
    (said,) = caplog.messages
    assert said.startswith("maintenance: ")
    assert " minor and " in said
    kinds = {e.kind for e in mill.catalog.list_events(limit=10_000)}
    assert {"run.finished", "block.collected", "block.purged"} <= kinds
    caplog.clear()
    upkeep(mill).run_maintenance()
    assert caplog.messages == []  # nothing was due

    monkeypatch.setattr(
        VacuumService,
        "maintain_channels",
        lambda *_a, **_k: MaintenanceResult(problems=("events was not compacted: no space",)),
    )
    upkeep(mill).run_maintenance()
    assert caplog.messages == ["maintenance: events was not compacted: no space"]
