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
from tidemill.model.block import Block, Kind
from tidemill.model.change import Signed
from tidemill.model.channel import Channel, Role
from tidemill.model.flow import Binding
from tidemill.model.run import Claim, Consumption, RunKind, demand_of
from tidemill.model.task import Mode, Read, Refresh, Task, Variant, Write
from tidemill.model.trigger import Data
from tidemill.model.workflow import Workflow
from tidemill.ports.engine import Engine as SparkLike
from tidemill.runtime.maintenance.vacuum import Janitor
from tidemill.runtime.runs.execution import Executor
from tidemill.storage.local import LocalBlockStore

__all__ = ["watch"]

STATE = "t.state"


def totals(query: str) -> Binding:
    """A declared table over `a` that keeps a state, as far as the catalog knows it."""

    def variant(way: str, mode: Mode, kind: Kind, kept: tuple[Read, ...] = ()) -> Variant:
        code = Refresh(None, "t", way, query)
        reads = (Read("a", "a", mode, advance=mode is Mode.ALL), *kept)
        return Variant(way, reads, (Write(STATE, STATE, kind), Write("t", "t", kind)), code)

    batch = variant("batch", Mode.ALL, Kind.BASE)
    incremental = variant("incremental", Mode.NEW, Kind.DELTA, (Read(STATE, STATE, Mode.ALL),))
    return Binding("t", (Task("t", (batch, incremental), refresh="auto").with_fixed_identity(),))


OLD, NEW = totals("sum(amount)"), totals("sum(amount * 10)")
DERIVED = (Channel("t", Role.DERIVED, updates=Signed()), Channel(STATE, Role.STATE, updates=Signed()))


def declaring(binding: Binding) -> Workflow:
    return Workflow("w", (*CHANNELS[:2], *DERIVED), (binding,))


@dataclass
class Server:
    """Runs the table with the code that it loaded: incrementally if there is something to go on from."""

    driver: Driver
    code: Binding
    made: dict[int, Binding] = field(default_factory=dict)  # by sequence number on `t`, the query that made it
    planned: Binding | None = None
    claimed: Claim | None = None
    refused: bool = False

    def plan(self) -> None:
        consumed = any(c.binding == "t" for c in self.driver.catalog.cursors())
        (task,) = self.code.tasks
        self.planned = replace(self.code, tasks=(task.choosing("incremental" if consumed else "batch"),))

    def claim(self) -> None:
        assert self.planned is not None
        run = self.driver.request(RunKind.FLOW, "t")
        try:
            self.claimed = self.driver.claim(run, demand_of(self.planned))
        except Conflict:
            self.refused = True
            self.driver.catalog.kill(run)

    def commit(self) -> None:
        if self.claimed is None:
            return
        assert self.planned is not None
        try:
            self.driver.commit(self.claimed, consumed(self.claimed, self.planned))
            self.made[self.claimed.slots["t", "t"].seq] = self.code
        except Conflict as conflict:
            self.refused = True
            self.driver.catalog.fail(self.claimed.run.id, self.claimed.run.fence, error=str(conflict))

    def run(self) -> None:
        self.plan()
        self.claim()
        self.commit()


def consumed(claim: Claim, binding: Binding) -> list[Consumption]:
    moving = {(t.name, r.port) for t in binding.tasks for r in t.reads if r.mode is Mode.NEW or r.advance}
    return [Consumption(*at, s.since.seq if at in moving else None, s.upto) for at, s in claim.spans.items()]


@dataclass
class Upkeep:
    driver: Driver
    janitor: Janitor
    claimed: Claim | None = None
    made: Block | None = None

    def compact(self) -> None:
        if (head := self.driver.head("t")) > 0:
            self.claimed = self.driver.open_compaction("t")
            self.made = base(self.claimed, "t", head)

    def compacted(self) -> None:
        if self.claimed is None or self.made is None:
            return
        try:
            self.driver.catalog.compacted(self.claimed, self.made)
        except Conflict as conflict:  # there is a base already
            self.driver.catalog.fail(self.claimed.run.id, self.claimed.run.fence, error=str(conflict))
        self.janitor.collect()


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
    driver: Driver, janitor: Janitor, applied: tuple[Binding, ...]
) -> None:
    refused = try_orders(driver, janitor, applied, upkeep=False)
    assert refused == {True, False}


@pytest.mark.parametrize("applied", [(NEW,), (NEW, OLD)], ids=["changed", "changed back"])
def test_nor_does_it_where_blocks_are_compacted_and_collected_meanwhile(
    driver: Driver, janitor: Janitor, applied: tuple[Binding, ...]
) -> None:
    try_orders(driver, janitor, applied, upkeep=True)


@pytest.fixture
def janitor(catalog: SqlCatalog, tmp_path: Path) -> Janitor:
    return Janitor(Executor(catalog, LocalBlockStore(tmp_path), cast(SparkLike, None), "me"))


def try_orders(driver: Driver, janitor: Janitor, applied: tuple[Binding, ...], *, upkeep: bool) -> set[bool]:
    """Returns whether the run that was under way was refused."""
    made: dict[int, Binding] = {}
    refused = set()
    for number in count(0, STRIDE if upkeep else 1):
        for runs_before in (0, 1):
            driver.catalog.apply(declaring(NEW))
            driver.catalog.apply(declaring(OLD))
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


def steps(server: Server, upkeep: Upkeep | None, applied: tuple[Binding, ...]) -> Iterator[tuple[Step, ...]]:
    def applying(binding: Binding) -> Step:
        return lambda: server.driver.catalog.apply(declaring(binding))

    yield (server.plan, server.claim, server.commit)
    yield tuple(map(applying, applied))
    if upkeep is not None:
        yield (upkeep.compact, upkeep.compacted)


def check(driver: Driver, made: dict[int, Binding], registered: Binding) -> None:
    """All of the content, from its last base on, was made by the query that is registered, and takes up all of `a`."""
    slots = [b for b in driver.catalog.blocks("t", limit=1000) if b.seq in made]
    since = max(b.seq for b in slots if b.kind is Kind.BASE and b.task == "t")
    newest = [b for b in slots if b.seq >= since]
    assert {made[b.seq].identity() for b in newest} == {registered.identity()}
    reads = [r for b in reversed(newest) for r in driver.catalog.readings(b.run or 0) if r.channel == "a"]
    assert all(after.since == before.upto for before, after in pairwise(reads))
    assert reads[-1].upto == driver.head("a")


@pytest.mark.parametrize("first", ["apply", "commit"])
def test_a_commit_beside_apply_leaves_no_cursor_of_the_old_query(
    driver: Driver, opened: Callable[[], SqlCatalog], watch: Connection, first: str
) -> None:
    applying, committing = opened(), Driver(opened(), driver.clock)
    for step in count(1, min(STRIDE, 3)):
        driver.catalog.apply(declaring(OLD))
        driver.insert("a")
        server = Server(committing, OLD)
        server.plan()
        server.claim()
        actions: dict[str, Step] = {"apply": lambda: applying.apply(declaring(NEW)), "commit": server.commit}
        (second,) = actions.keys() - {first}
        with between(step, actions[second], watch) as meanwhile:
            actions[first]()
        if meanwhile.other is None:
            actions[second]()
        else:
            meanwhile.other.result()
        assert [c for c in driver.catalog.cursors() if c.binding == "t"] == []
        if meanwhile.other is None:
            break
    assert step > 10, "there are more steps than that"


def test_the_flow_of_an_outdated_run_is_due_again(driver: Driver) -> None:
    on_data = replace(OLD, triggers=(Data("a"),)), replace(NEW, triggers=(Data("a"),))
    driver.catalog.apply(declaring(on_data[0]))
    driver.insert("a")
    server = Server(driver, on_data[0])
    server.plan()
    server.claim()
    driver.catalog.apply(declaring(on_data[1]))
    server.commit()
    assert "run.outdated" in driver.kinds_of_events()
    assert [run.subject for run in driver.catalog.runnable()] == ["t"]
