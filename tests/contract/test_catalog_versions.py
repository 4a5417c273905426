"""A query that changes while it runs: every order of planning, claim, commit, `apply`, compaction and collection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, islice, pairwise
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import Connection
from tests.catalog.driver import CHANNELS, Driver, build_base
from tests.catalog.interleaving import run_between, watch
from tests.databases import LONG_ON_POSTGRESQL
from tests.marks import long

from tidemill.catalog import SqlCatalog
from tidemill.errors import Conflict
from tidemill.model.block import Block, BlockKind
from tidemill.model.change import Signed
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.run import Consumption, RunClaim, RunKind, build_claim_request
from tidemill.model.task import ReadMode, Refresh, Task, TaskInput, TaskOutput, Variant
from tidemill.model.trigger import DataTrigger
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.engine import Engine as SparkLike
from tidemill.runtime.maintenance.vacuum import VacuumService
from tidemill.runtime.runs.execution import Executor
from tidemill.storage.local import LocalBlockStore

__all__ = ["watch"]

STATE = "t.state"


def totals(query: str) -> BoundFlow:
    """A declared table over `a` with state, as the catalog represents it."""

    def variant(mode_name: str, mode: ReadMode, kind: BlockKind, state_inputs: tuple[TaskInput, ...] = ()) -> Variant:
        code = Refresh(None, "t", mode_name, query)
        reads = (TaskInput("a", "a", mode, advance=mode is ReadMode.ALL), *state_inputs)
        return Variant(mode_name, reads, (TaskOutput(STATE, STATE, kind), TaskOutput("t", "t", kind)), code)

    batch = variant("batch", ReadMode.ALL, BlockKind.BASE)
    incremental = variant("incremental", ReadMode.NEW, BlockKind.DELTA, (TaskInput(STATE, STATE, ReadMode.ALL),))
    return BoundFlow("t", (Task("t", (batch, incremental), refresh="auto").fix_identity(),))


OLD, NEW = totals("sum(amount)"), totals("sum(amount * 10)")
DERIVED = (Channel("t", ChannelRole.DERIVED, updates=Signed()), Channel(STATE, ChannelRole.STATE, updates=Signed()))


def build_workflow(binding: BoundFlow) -> WorkflowSpec:
    return WorkflowSpec("w", (*CHANNELS[:2], *DERIVED), (binding,))


@dataclass
class Server:
    """Runs the table with its loaded code: incrementally if there is previous state."""

    driver: Driver
    code: BoundFlow
    written: dict[int, BoundFlow] = field(
        default_factory=dict
    )  # by sequence number on `t`, the query that wrote the block
    planned: BoundFlow | None = None
    claimed: RunClaim | None = None
    rejected: bool = False

    def plan(self) -> None:
        has_cursor = any(c.binding == "t" for c in self.driver.catalog.channels.read_cursors())
        (task,) = self.code.tasks
        self.planned = replace(self.code, tasks=(task.select_variant("incremental" if has_cursor else "batch"),))

    def claim(self) -> None:
        assert self.planned is not None
        run = self.driver.request(RunKind.FLOW, "t")
        try:
            self.claimed = self.driver.claim(run, build_claim_request(self.planned))
        except Conflict:
            self.rejected = True
            self.driver.catalog.runs.kill(run)

    def commit(self) -> None:
        if self.claimed is None:
            return
        assert self.planned is not None
        try:
            self.driver.commit(self.claimed, list_consumptions(self.claimed, self.planned))
            self.written[self.claimed.reservations["t", "t"].seq] = self.code
        except Conflict as conflict:
            self.rejected = True
            self.driver.catalog.runs.fail(self.claimed.run.id, self.claimed.run.fencing_token, error=str(conflict))

    def run(self) -> None:
        self.plan()
        self.claim()
        self.commit()


def list_consumptions(claim: RunClaim, binding: BoundFlow) -> list[Consumption]:
    moving = {(t.name, r.port) for t in binding.tasks for r in t.reads if r.mode is ReadMode.NEW or r.advance}
    return [Consumption(*port, s.since.seq if port in moving else None, s.upto) for port, s in claim.spans.items()]


@dataclass
class Maintenance:
    driver: Driver
    vacuum: VacuumService
    claimed: RunClaim | None = None
    written: Block | None = None

    def compact(self) -> None:
        if (head := self.driver.head("t")) > 0:
            self.claimed = self.driver.open_compaction("t")
            self.written = build_base(self.claimed, "t", head)

    def commit_compaction_and_collect(self) -> None:
        if self.claimed is None or self.written is None:
            return
        try:
            self.driver.catalog.runs.commit_compaction(self.claimed, self.written)
        except Conflict as conflict:  # a base exists already
            self.driver.catalog.runs.fail(self.claimed.run.id, self.claimed.run.fencing_token, error=str(conflict))
        self.vacuum.collect_garbage()


Step = Callable[[], object]


def list_orders(*sequences: tuple[Step, ...]) -> Iterator[list[Step]]:
    """Every interleaving of the sequences of steps."""
    remaining = [s for s in sequences if s]
    if not remaining:
        yield []
    for i, (first, *rest) in enumerate(remaining):
        yield from ([first, *order] for order in list_orders(*remaining[:i], tuple(rest), *remaining[i + 1 :]))


STRIDE = 1 if int(os.environ.get("TIDEMILL_CRASH_ROUNDS", "0")) else 29
"""`make crash` tries every order with maintenance."""


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
@pytest.mark.parametrize("applied_bindings", [(NEW,), (NEW, OLD)], ids=["changed", "changed back"])
def test_a_query_does_not_continue_from_the_state_of_another(
    driver: Driver, vacuum: VacuumService, applied_bindings: tuple[BoundFlow, ...]
) -> None:
    rejected = try_orders(driver, vacuum, applied_bindings, maintenance=False)
    assert rejected == {True, False}


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
@pytest.mark.parametrize("applied_bindings", [(NEW,), long((NEW, OLD))], ids=["changed", "changed back"])
def test_a_query_does_not_continue_from_the_state_of_another_despite_maintenance(
    driver: Driver, vacuum: VacuumService, applied_bindings: tuple[BoundFlow, ...]
) -> None:
    try_orders(driver, vacuum, applied_bindings, maintenance=True)


@pytest.fixture
def vacuum(catalog: SqlCatalog, tmp_path: Path) -> VacuumService:
    return VacuumService(Executor(catalog, LocalBlockStore(tmp_path), cast(SparkLike, None), "me"))


def try_orders(
    driver: Driver, vacuum: VacuumService, applied_bindings: tuple[BoundFlow, ...], *, maintenance: bool
) -> set[bool]:
    """Try every order; returns whether the run in progress was rejected."""
    written: dict[int, BoundFlow] = {}
    rejected = set()
    for number in count(0, STRIDE if maintenance else 1):
        for runs_before in (0, 1):
            driver.catalog.workflows.apply(build_workflow(NEW))
            driver.catalog.workflows.apply(build_workflow(OLD))
            for _ in range(runs_before):
                driver.insert("a")
                Server(driver, OLD, written).run()
            driver.insert("a")
            server, concurrent = Server(driver, OLD, written), Maintenance(driver, vacuum)
            order = next(
                islice(
                    list_orders(*steps(server, concurrent if maintenance else None, applied_bindings)), number, None
                ),
                None,
            )
            if order is None:
                return rejected
            for step in order:
                step()
            driver.insert("a")
            after = Server(driver, applied_bindings[-1], written)
            after.run()
            rejected.add(server.rejected)
            assert not after.rejected, order
            check(driver, written, applied_bindings[-1])
    raise AssertionError("orders end")


def steps(
    server: Server, maintenance: Maintenance | None, applied_bindings: tuple[BoundFlow, ...]
) -> Iterator[tuple[Step, ...]]:
    def build_apply(binding: BoundFlow) -> Step:
        return lambda: server.driver.catalog.workflows.apply(build_workflow(binding))

    yield (server.plan, server.claim, server.commit)
    yield tuple(map(build_apply, applied_bindings))
    if maintenance is not None:
        yield (maintenance.compact, maintenance.commit_compaction_and_collect)


def check(driver: Driver, written: dict[int, BoundFlow], registered: BoundFlow) -> None:
    """Check that the registered query wrote the content from its last base on, and has read all of `a`."""
    written_blocks = [b for b in driver.catalog.blocks.list("t", limit=1000) if b.seq in written]
    since = max(b.seq for b in written_blocks if b.kind is BlockKind.BASE and b.task == "t")
    newest = [b for b in written_blocks if b.seq >= since]
    assert {written[b.seq].compute_identity() for b in newest} == {registered.compute_identity()}
    reads = [r for b in reversed(newest) for r in driver.catalog.runs.list_reads(b.run or 0) if r.channel == "a"]
    assert all(after.since == before.upto for before, after in pairwise(reads))
    assert reads[-1].upto == driver.head("a")


@pytest.mark.parametrize("first", ["apply", "commit"])
def test_a_commit_during_apply_leaves_no_cursor_of_the_old_query(
    driver: Driver, open_another: Callable[[], SqlCatalog], watch: Connection, first: str
) -> None:
    build_apply, committing = open_another(), Driver(open_another(), driver.clock)
    for step in count(1, min(STRIDE, 3)):
        driver.catalog.workflows.apply(build_workflow(OLD))
        driver.insert("a")
        server = Server(committing, OLD)
        server.plan()
        server.claim()
        actions: dict[str, Step] = {
            "apply": lambda: build_apply.workflows.apply(build_workflow(NEW)),
            "commit": server.commit,
        }
        (second,) = actions.keys() - {first}
        with run_between(step, actions[second], watch) as meanwhile:
            actions[first]()
        if meanwhile.other is None:
            actions[second]()
        else:
            meanwhile.other.result()
        assert [c for c in driver.catalog.channels.read_cursors() if c.binding == "t"] == []
        if meanwhile.other is None:
            break
    assert step > 10, "there are more steps than that"


def test_the_flow_of_an_outdated_run_is_due_again(driver: Driver) -> None:
    on_data = replace(OLD, triggers=(DataTrigger("a"),)), replace(NEW, triggers=(DataTrigger("a"),))
    driver.catalog.workflows.apply(build_workflow(on_data[0]))
    driver.insert("a")
    server = Server(driver, on_data[0])
    server.plan()
    server.claim()
    driver.catalog.workflows.apply(build_workflow(on_data[1]))
    server.commit()
    assert "run.outdated" in driver.kinds_of_events()
    assert [run.subject for run in driver.catalog.runs.list_runnable()] == ["t"]
