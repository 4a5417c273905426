"""Pinned blocks stay with all that they were made from, whatever is collected; and nothing else stays for nothing."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import cast

import pytest
from tests.catalog.driver import SCHEMA, Driver, task

from tidemill.errors import Conflict
from tidemill.model.block import Block, BlockState, Kind, Origin
from tidemill.model.channel import Channel, Role
from tidemill.model.flow import Binding
from tidemill.model.task import Mode
from tidemill.model.view import blocks_of, snapshot
from tidemill.model.workflow import Workflow
from tidemill.ports.engine import Engine
from tidemill.retention.garbage_collection import Need, collectable
from tidemill.runtime.inspect.block_trace import sources
from tidemill.runtime.maintenance.pins import pin
from tidemill.runtime.maintenance.vacuum import Janitor
from tidemill.runtime.runs.execution import Executor
from tidemill.storage.local import LocalBlockStore

COPY = Binding("copy", (task("copying", {"a": Mode.NEW, "b": Mode.ALL}, {"d": Kind.DELTA}),))
WHOLE = Binding("whole", (task("counting", {"d": Mode.ALL}, {"e": Kind.BASE}),))
CHANNELS = (
    *(Channel(name, Role.INPUT, SCHEMA) for name in "ab"),
    *(Channel(name, Role.DERIVED) for name in "de"),
)
NAMES = [c.name for c in CHANNELS]


@pytest.fixture
def janitor(driver: Driver, tmp_path: Path) -> Janitor:
    driver.catalog.apply(Workflow("w", CHANNELS, (COPY, WHOLE)))
    return Janitor(Executor(driver.catalog, LocalBlockStore(tmp_path), cast(Engine, None), "me"))


def filled(driver: Driver, channel: str) -> list[Block]:
    return [b for b in driver.catalog.filled(channel) if b.origin is not Origin.FIRST]


def gone_by(driver: Driver, block: Block) -> set[int]:
    """Blocks that a pin should hold and that are not there: all that tracing leads to, step by step."""
    missing, known = set[int](), {block.id: block}
    todo = [block]
    while todo:
        here = todo.pop()
        missing |= set() if driver.catalog.block(here.id).state is BlockState.FILLED else {here.id}
        for source in sources(driver.catalog, here):
            todo += [b for b in source.blocks if b.id not in known]
            known |= {b.id: b for b in source.blocks}
    return missing


def readable(driver: Driver, channel: str, at: int) -> set[int]:
    known = driver.catalog.base_and_after(channel, at)
    return {b.id for b in blocks_of(snapshot(channel, SCHEMA, known, at))}


def step(driver: Driver, random: Random) -> None:
    """Something happens that makes blocks."""
    catalog = driver.catalog
    what = random.choice(["insert", "insert", "base", "copy", "copy", "whole", "fold", "compact"])
    channel = random.choice(NAMES)
    head = driver.head(channel)
    driver.clock.now += 1
    if what in ("insert", "base"):
        driver.insert(random.choice("ab"), kind=Kind.BASE if what == "base" else Kind.DELTA)
    elif what in ("copy", "whole"):
        driver.run_flow(COPY if what == "copy" else WHOLE)
    elif what == "compact" and head and not any(b.kind is Kind.BASE and b.seq == head for b in catalog.filled(channel)):
        driver.compact(channel, head)
    elif what == "fold":
        deltas = [b for b in filled(driver, channel) if b.kind is Kind.DELTA and b.seq <= head]
        pairs = [(b, c) for b in deltas for c in deltas if b.seq == c.since]
        if pairs:
            first, second = random.choice(pairs)
            if not any((b.since, b.seq) == (first.since, second.seq) for b in deltas):
                driver.fold(channel, first.since or 0, second.seq)


@pytest.mark.parametrize("seed", range(int(os.environ.get("TIDEMILL_EXAMPLES", "60")) // 30))
def test_collection_takes_what_nobody_needs_and_nothing_that_a_pin_reaches(
    driver: Driver, janitor: Janitor, seed: int
) -> None:
    random, catalog = Random(seed), driver.catalog
    pinned: dict[int, tuple[Block, set[int]]] = {}
    for _ in range(60):
        step(driver, random)
        there = [b for name in NAMES for b in filled(driver, name)]
        if random.random() < 0.2 and there:
            chosen = catalog.block(random.choice(there).id)
            pinned[chosen.id] = chosen, gone_by(driver, chosen)
            pin(catalog, chosen.id)
        if random.random() < 0.1 and pinned:
            number = random.choice(list(pinned))
            del pinned[number]
            catalog.unpin(number)
        if random.random() < 0.3:
            points, since = random.choice([0, 2]), random.choice([None, int((driver.clock.now - 5) * 1e6)])
            janitor._collect(catalog.channels(), since, points)
            for block, before in pinned.values():
                assert gone_by(driver, block) == before  # what was gone when it was pinned, and no more
                readable(driver, block.channel, block.seq)
    assert {b.id for name in NAMES for b in catalog.blocks(name, 1000) if b.pinned} == pinned.keys()
    for number in pinned:
        catalog.unpin(number)
    janitor.collect()
    for name in NAMES:  # all that is left is needed by who reads on
        needs = [Need(c.position.seq) for c in catalog.cursors(name)]
        assert collectable(catalog.filled(name), driver.head(name), needs) == []
        assert catalog.held(name) == set()


def test_a_pin_holds_a_block_and_what_it_was_made_from_back_to_the_inputs(driver: Driver, janitor: Janitor) -> None:
    driver.insert("b")
    old = driver.insert("a")
    (copied,) = driver.run_flow(COPY)
    (counted,) = driver.run_flow(WHOLE)
    assert pin(driver.catalog, counted.id) >= {counted.id, copied.id, old.id}
    for name in "ab":
        driver.insert(name, kind=Kind.BASE)
    for flow in (COPY, WHOLE):
        driver.run_flow(flow)
    driver.compact("d", driver.head("d"))
    janitor.collect()
    assert driver.catalog.block(counted.id).pinned
    assert {driver.catalog.block(b.id).state for b in (old, copied, counted)} == {BlockState.FILLED}
    driver.catalog.forget("a", keep=1)
    driver.catalog.forget("copy", keep=1)
    assert not any(s.forgotten for s in sources(driver.catalog, driver.catalog.block(copied.id)))
    driver.catalog.unpin(counted.id)
    janitor.collect()
    assert {driver.catalog.block(b.id).state for b in (copied, counted)} == {BlockState.COLLECTED}


def test_what_two_pins_hold_stays_until_both_are_gone(driver: Driver, janitor: Janitor) -> None:
    driver.insert("b")
    old = driver.insert("a")
    (copied,) = driver.run_flow(COPY)
    for block in (old, copied):
        pin(driver.catalog, block.id)
    driver.insert("a", kind=Kind.BASE)
    driver.run_flow(COPY)
    for block, state in ((old, BlockState.FILLED), (copied, BlockState.COLLECTED)):
        driver.catalog.unpin(block.id)
        janitor.collect()
        assert driver.catalog.block(old.id).state is state


def test_what_is_gone_cannot_be_pinned(driver: Driver, janitor: Janitor) -> None:
    old = driver.insert("a")
    driver.insert("a", kind=Kind.BASE)
    driver.run_flow(COPY)
    driver.catalog.collect([old.id])
    with pytest.raises(Conflict, match="is collected; only filled blocks can be pinned"):
        pin(driver.catalog, old.id)
    assert driver.catalog.held("a") == set()


def test_who_collects_what_was_pinned_meanwhile_leaves_it(driver: Driver, janitor: Janitor) -> None:
    first, second = driver.insert("a"), driver.insert("a")
    pin(driver.catalog, first.id)
    driver.catalog.collect([first.id, second.id])
    assert [driver.catalog.block(b.id).state for b in (first, second)] == [BlockState.FILLED, BlockState.COLLECTED]


def test_what_was_collected_between_looking_and_pinning_is_told(driver: Driver, janitor: Janitor) -> None:
    first, second = driver.insert("a"), driver.insert("a")
    driver.catalog.collect([first.id])
    with pytest.raises(Conflict, match="was collected meanwhile; pin it again"):
        driver.catalog.pin(second.id, {first.id, second.id})
    assert "block.pinned" not in driver.kinds_of_events()
