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
from tests.catalog.driver import CHANNELS, Driver, base
from tests.catalog.interleaving import between, watch

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
    """A declared table over `a` that keeps a state, as far as the catalog knows it."""

    def variant(way: str, mode: ReadMode, kind: BlockKind, kept: tuple[TaskInput, ...] = ()) -> Variant:
        code = Refresh(None, "t", way, query)
        reads = (TaskInput("a", "a", mode, advance=mode is ReadMode.ALL), *kept)
        return Variant(way, reads, (TaskOutput(STATE, STATE, kind), TaskOutput("t", "t", kind)), code)

    batch = variant("batch", ReadMode.ALL, BlockKind.BASE)
    incremental = variant("incremental", ReadMode.NEW, BlockKind.DELTA, (TaskInput(STATE, STATE, ReadMode.ALL),))
    return BoundFlow("t", (Task("t", (batch, incremental), refresh="auto").fix_identity(),))


OLD, NEW = totals("sum(amount)"), totals("sum(amount * 10)")
DERIVED = (Channel("t", ChannelRole.DERIVED, updates=Signed()), Channel(STATE, ChannelRole.STATE, updates=Signed()))


def declaring(binding: BoundFlow) -> WorkflowSpec:
    return WorkflowSpec("w", (*CHANNELS[:2], *DERIVED), (binding,))


@dataclass
class Server:
    """Runs the table with the code that it loaded: incrementally if there is something to go on from."""

    driver: Driver
    code: BoundFlow
    made: dict[int, BoundFlow] = field(default_factory=dict)  # by sequence number on `t`, the query that made it
    planned: BoundFlow | None = None
    claimed: RunClaim | None = None
    refused: bool = False

    def plan(self) -> None:
        consumed = any(c.binding == "t" for c in self.driver.catalog.read_cursors())
        (task,) = self.code.tasks
        self.planned = replace(self.code, tasks=(task.select_variant("incremental" if consumed else "batch"),))

    def claim(self) -> None:
        assert self.planned is not None
        run = self.driver.request(RunKind.FLOW, "t")
        try:
            self.claimed = self.driver.claim(run, build_claim_request(self.planned))
        except Conflict:
            self.refused = True
            self.driver.catalog.kill_run(run)

    def commit(self) -> None:
        if self.claimed is None:
            return
        assert self.planned is not None
        try:
            self.driver.commit(self.claimed, consumed(self.claimed, self.planned))
            self.made[self.claimed.reservations["t", "t"].seq] = self.code
        except Conflict as conflict:
            self.refused = True
            self.driver.catalog.fail_run(self.claimed.run.id, self.claimed.run.fencing_token, error=str(conflict))

    def run(self) -> None:
        self.plan()
        self.claim()
        self.commit()


def consumed(claim: RunClaim, binding: BoundFlow) -> list[Consumption]:
    moving = {(t.name, r.port) for t in binding.tasks for r in t.reads if r.mode is ReadMode.NEW or r.advance}
    return [Consumption(*at, s.since.seq if at in moving else None, s.upto) for at, s in claim.spans.items()]


@dataclass
class Upkeep:
    driver: Driver
    janitor: VacuumService
    claimed: RunClaim | None = None
    made: Block | None = None

    def compact(self) -> None:
        if (head := self.driver.head("t")) > 0:
            self.claimed = self.driver.open_compaction("t")
            self.made = base(self.claimed, "t", head)

    def compacted(self) -> None:
        if self.claimed is None or self.made is None:
            return
        try:
            self.driver.catalog.commit_compaction(self.claimed, self.made)
        except Conflict as conflict:  # there is a base already
            self.driver.catalog.fail_run(self.claimed.run.id, self.claimed.run.fencing_token, error=str(conflict))
        self.janitor.collect_garbage()


Step = Callable[[], object]


def orders(*sequences: tuple[Step, ...]) -> Iterator[list[Step]]:
    """Every order of all steps in which those of each sequence keep theirs."""
    left = [s for s in sequences if s]
    if not left:
        yield []
    for i, (first, *rest) in enumerate(left):
        yield from ([first, *order] for order in orders(*left[:i], tuple(rest), *left[i + 1 :]))


STRIDE = 1 if int(os.environ.get("TIDEMILL_CRASH_ROUNDS", "0")) else 29
"""Every order with upkeep among them is for `make crash`."""


@pytest.mark.parametrize("applied", [(NEW,), (NEW, OLD)], ids=["changed", "changed back"])
def test_no_query_goes_on_from_what_another_one_left(
    driver: Driver, janitor: VacuumService, applied: tuple[BoundFlow, ...]
) -> None:
    refused = try_orders(driver, janitor, applied, upkeep=False)
    assert refused == {True, False}


@pytest.mark.parametrize("applied", [(NEW,), (NEW, OLD)], ids=["changed", "changed back"])
def test_nor_does_it_where_blocks_are_compacted_and_collected_meanwhile(
    driver: Driver, janitor: VacuumService, applied: tuple[BoundFlow, ...]
) -> None:
    try_orders(driver, janitor, applied, upkeep=True)


@pytest.fixture
def janitor(catalog: SqlCatalog, tmp_path: Path) -> VacuumService:
    return VacuumService(Executor(catalog, LocalBlockStore(tmp_path), cast(SparkLike, None), "me"))


def try_orders(driver: Driver, janitor: VacuumService, applied: tuple[BoundFlow, ...], *, upkeep: bool) -> set[bool]:
    """Returns whether the run that was under way was refused."""
    made: dict[int, BoundFlow] = {}
    refused = set()
    for number in count(0, STRIDE if upkeep else 1):
        for runs_before in (0, 1):
            driver.catalog.apply_workflow(declaring(NEW))
            driver.catalog.apply_workflow(declaring(OLD))
            for _ in range(runs_before):
                driver.insert("a")
                Server(driver, OLD, made).run()
            driver.insert("a")
            server, beside = Server(driver, OLD, made), Upkeep(driver, janitor)
            order = next(islice(orders(*steps(server, beside if upkeep else None, applied)), number, None), None)
            if order is None:
                return refused
            for step in order:
                step()
            driver.insert("a")
            after = Server(driver, applied[-1], made)
            after.run()
            refused.add(server.refused)
            assert not after.refused, order
            check(driver, made, applied[-1])
    raise AssertionError("orders end")


def steps(server: Server, upkeep: Upkeep | None, applied: tuple[BoundFlow, ...]) -> Iterator[tuple[Step, ...]]:
    def applying(binding: BoundFlow) -> Step:
        return lambda: server.driver.catalog.apply_workflow(declaring(binding))

    yield (server.plan, server.claim, server.commit)
    yield tuple(map(applying, applied))
    if upkeep is not None:
        yield (upkeep.compact, upkeep.compacted)


def check(driver: Driver, made: dict[int, BoundFlow], registered: BoundFlow) -> None:
    """All of the content, from its last base on, was made by the query that is registered, and takes up all of `a`."""
    slots = [b for b in driver.catalog.list_blocks("t", limit=1000) if b.seq in made]
    since = max(b.seq for b in slots if b.kind is BlockKind.BASE and b.task == "t")
    newest = [b for b in slots if b.seq >= since]
    assert {made[b.seq].compute_identity() for b in newest} == {registered.compute_identity()}
    reads = [r for b in reversed(newest) for r in driver.catalog.list_run_reads(b.run or 0) if r.channel == "a"]
    assert all(after.since == before.upto for before, after in pairwise(reads))
    assert reads[-1].upto == driver.head("a")


@pytest.mark.parametrize("first", ["apply", "commit"])
def test_a_commit_beside_apply_leaves_no_cursor_of_the_old_query(
    driver: Driver, opened: Callable[[], SqlCatalog], watch: Connection, first: str
) -> None:
    applying, committing = opened(), Driver(opened(), driver.clock)
    for step in count(1, min(STRIDE, 3)):
        driver.catalog.apply_workflow(declaring(OLD))
        driver.insert("a")
        server = Server(committing, OLD)
        server.plan()
        server.claim()
        actions: dict[str, Step] = {"apply": lambda: applying.apply_workflow(declaring(NEW)), "commit": server.commit}
        (second,) = actions.keys() - {first}
        with between(step, actions[second], watch) as meanwhile:
            actions[first]()
        if meanwhile.other is None:
            actions[second]()
        else:
            meanwhile.other.result()
        assert [c for c in driver.catalog.read_cursors() if c.binding == "t"] == []
        if meanwhile.other is None:
            break
    assert step > 10, "there are more steps than that"


def test_the_flow_of_an_outdated_run_is_due_again(driver: Driver) -> None:
    on_data = replace(OLD, triggers=(DataTrigger("a"),)), replace(NEW, triggers=(DataTrigger("a"),))
    driver.catalog.apply_workflow(declaring(on_data[0]))
    driver.insert("a")
    server = Server(driver, on_data[0])
    server.plan()
    server.claim()
    driver.catalog.apply_workflow(declaring(on_data[1]))
    server.commit()
    assert "run.outdated" in driver.kinds_of_events()
    assert [run.subject for run in driver.catalog.list_runnable_runs()] == ["t"]
