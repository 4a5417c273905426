"""Compaction and garbage collection interrupted in every way: no data is lost, and the next maintenance completes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from tests.acceptance.mill import HISTORY, LIMITS, WORKFLOW, Mill, batch, compute_expected_firsts, open_plain_mill
from tests.catalog.driver import AT_ONCE
from tests.databases import LONG_ON_POSTGRESQL

from tidemill.algebra.reference import is_same_bag
from tidemill.model.block import Block, BlockState
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
    """A mill with due maintenance on every channel."""
    with open_plain_mill(url, tmp_path / "blocks") as mill:
        mill.catalog.workflows.apply(WORKFLOW)
        for number in range(BATCHES):
            insert_and_run(mill, tmp_path, number)
        yield mill


def insert_and_run(mill: Mill, directory: Path, number: int) -> None:
    mill.insert(batch(directory, number))
    mill.run()


def build_service(mill: Mill, rules: MaintenanceRules = RULES) -> MaintenanceService:
    return MaintenanceService(mill.executor, lambda: Compactor(mill.executor, {}, rules.limits), rules)


def check_content(mill: Mill, batches: int = BATCHES) -> None:
    """Check that readers see the same content."""
    assert is_same_bag(mill.content("firsts"), compute_expected_firsts(batches))
    assert len(mill.content("events")) == 4 * batches


def count_compactions(mill: Mill, state: RunState = RunState.FINISHED) -> int:
    return sum(r.kind is RunKind.COMPACTION for r in mill.catalog.runs.list(state=state, limit=10_000))


def list_due(mill: Mill) -> list[str]:
    return [c for c in CHANNELS if Compactor(mill.executor, {}, LIMITS).assess_compaction(c).compaction]


def check_completed_by_next_maintenance(mill: Mill, batches: int = BATCHES) -> None:
    """Run maintenance again; check that it completes the work and leaves nothing behind."""
    build_service(mill).run_maintenance()
    assert list_due(mill) == []
    assert mill.leftovers() == set()
    assert not [b for b in mill.catalog.blocks.list(limit=1000) if b.state is BlockState.RESERVED]
    check_content(mill, batches)


def call_before(monkeypatch: pytest.MonkeyPatch, target: object, name: str, before: Callable[[], None]) -> None:
    """Call a function before every call of a method of the target."""
    call = getattr(target, name)

    def call_both(*args: object, **kwargs: object) -> object:
        before()
        return call(*args, **kwargs)

    monkeypatch.setattr(type(target), name, lambda _self, *args, **kwargs: call_both(*args, **kwargs))


def maintain_after(service: MaintenanceService, blocks: list[Block]) -> None:
    """Do the maintenance that is due after a run, to its end."""
    service.begin_maintenance(blocks)
    service.finish()


def test_maintenance_after_a_run_covers_the_written_and_the_read_channels(mill: Mill) -> None:
    assert set(list_due(mill)) == {"events", "firsts", "words"}
    newest = mill.catalog.blocks.list("firsts", limit=1)
    assert [b.seq % LIMITS.fan for b in newest] == [0]
    maintain_after(build_service(mill), newest)
    assert list_due(mill) == []
    check_content(mill)


def test_few_small_blocks_cause_no_maintenance(mill: Mill, tmp_path: Path) -> None:
    insert_and_run(mill, tmp_path, BATCHES)
    maintain_after(
        build_service(mill, replace(RULES, limits=replace(LIMITS, floor=1000))),
        mill.catalog.blocks.list("firsts", limit=1),
    )
    assert count_compactions(mill) == 0


# -- between any two steps ----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
def test_maintenance_stopped_before_any_step_is_completed_later(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum, "REMOVAL_BATCH", 1)
    with open_plain_mill(url, tmp_path / "blocks") as mill:
        mill.catalog.workflows.apply(WORKFLOW)
        for steps in count():
            insert_and_run(mill, tmp_path, 2 * steps)
            insert_and_run(mill, tmp_path, 2 * steps + 1)
            remaining = iter([True] * steps)
            stopped = VacuumService(mill.executor, lambda remaining=remaining: next(remaining, False), AT_ONCE)  # type: ignore[misc]
            stopped.maintain_channels(CHANNELS, Compactor(mill.executor, {}, LIMITS), history=HISTORY)
            check_content(mill, 2 * steps + 2)
            if next(remaining, False):
                break  # it finished before it was stopped
            check_completed_by_next_maintenance(mill, 2 * steps + 2)
        assert steps > 8, "there are more steps than that"


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
def test_files_that_an_interrupted_removal_left_are_removed_later(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum, "REMOVAL_BATCH", 1)
    stopped = build_service(mill)
    call_before(monkeypatch, mill.store, "delete_files", stopped.stopping.set)
    stopped.run_maintenance()
    assert mill.leftovers(), "it was stopped after the first file"
    check_content(mill)
    monkeypatch.undo()
    check_completed_by_next_maintenance(mill)


# -- by settings and by command -----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
def test_maintenance_that_is_not_automatic_runs_on_request(mill: Mill) -> None:
    service = build_service(mill, replace(RULES, automatic=False))
    service.run_maintenance()
    maintain_after(service, mill.catalog.blocks.list())
    assert count_compactions(mill) == 0
    assert len(service.maintain_channels().minor_compactions) > 0
    check_content(mill)


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
def test_a_pause_stops_maintenance_after_the_current_step(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = mill.executor.engine
    call_before(monkeypatch, engine, "write_view", lambda: mill.catalog.servers.override_settings({OVERRIDE: PAUSED}))
    service = build_service(mill)
    service.run_maintenance()
    service.run_maintenance()
    maintain_after(service, mill.catalog.blocks.list())
    assert count_compactions(mill) == 1
    assert all(b.state is not BlockState.COLLECTED for b in mill.catalog.blocks.list(limit=1000))
    check_content(mill)
    monkeypatch.undo()
    mill.catalog.servers.override_settings({OVERRIDE: None})
    check_completed_by_next_maintenance(mill)


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
def test_a_compaction_can_be_killed_while_it_writes(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill() -> None:
        (run,) = (r for state in ACTIVE_STATES for r in mill.catalog.runs.list(state=state))
        mill.catalog.runs.kill(run.id)

    call_before(monkeypatch, mill.executor.engine, "write_view", kill)
    result = build_service(mill).maintain_channels(["events"])
    assert (result.minor_compactions, result.major_compactions, result.problems) == (
        (),
        (),
        (),
    )  # its run says that it was killed
    assert count_compactions(mill, RunState.KILLED) == 1
    check_content(mill)
    monkeypatch.undo()
    check_completed_by_next_maintenance(mill)


# -- when the server ends -----------------------------------------------------------------------------------------


class BlockingWrite:
    """A write that blocks until it is released."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.release = threading.Event()

    def __call__(self) -> None:
        self.started.set()
        assert self.release.wait(30)


def start_server(mill: Mill, service: MaintenanceService) -> tuple[ServerLoop, threading.Thread]:
    periodic_tasks = [PeriodicTask("maintenance", 3600.0, service.run_maintenance)]
    loop = ServerLoop(
        mill.catalog,
        Server("one", "work", 1),
        lambda *_: None,
        periodic_tasks,
        ServerIntervals(),
        stopping=service.stopping,
    )
    thread = threading.Thread(target=loop.run)
    thread.start()
    return loop, thread


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
def test_a_draining_server_finishes_the_current_compaction_and_starts_no_other(
    mill: Mill, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = BlockingWrite()
    call_before(monkeypatch, mill.executor.engine, "write_view", write)
    loop, thread = start_server(mill, build_service(mill))
    assert write.started.wait(30)
    assert [r.kind for r in read_status(mill.catalog).active] == [RunKind.COMPACTION]
    loop.drain()
    write.release.set()
    thread.join(30)
    assert not thread.is_alive()
    assert count_compactions(mill) == 1
    assert list_due(mill), "the others are still due"
    monkeypatch.undo()
    check_completed_by_next_maintenance(mill)


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
def test_a_server_that_is_stopped_twice_abandons_the_compaction(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    write = BlockingWrite()
    call_before(monkeypatch, mill.executor.engine, "write_view", write)
    loop, thread = start_server(mill, build_service(mill))
    assert write.started.wait(30)
    loop.drain()
    mill.executor.abandon_runs()
    write.release.set()
    thread.join(30)
    assert not thread.is_alive()
    assert (count_compactions(mill), count_compactions(mill, RunState.FAILED)) == (0, 1)
    check_content(mill)
    monkeypatch.undo()
    check_completed_by_next_maintenance(mill)


# -- reports ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
def test_maintenance_logs_its_work_and_its_problems(
    mill: Mill, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidemill.server")
    build_service(mill).run_maintenance()
    (message,) = caplog.messages
    assert message.startswith("maintenance: ")
    assert " minor and " in message
    kinds = {e.kind for e in mill.catalog.events.list(limit=10_000)}
    assert {"run.finished", "block.collected", "block.purged"} <= kinds
    caplog.clear()
    build_service(mill).run_maintenance()
    assert caplog.messages == []  # nothing was due

    monkeypatch.setattr(
        VacuumService,
        "maintain_channels",
        lambda *_a, **_k: MaintenanceResult(problems=("events was not compacted: no space",)),
    )
    build_service(mill).run_maintenance()
    assert caplog.messages == ["maintenance: events was not compacted: no space"]
