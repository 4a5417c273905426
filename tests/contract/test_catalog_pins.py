"""Pinned blocks stay with all that they were made from, whatever is collected; and nothing else stays for nothing."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import cast

import pytest
from tests.catalog.driver import SCHEMA, Driver, task

from tidemill.errors import Conflict
from tidemill.model.block import Block, BlockKind, BlockOrigin, BlockState
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.task import ReadMode
from tidemill.model.view import build_snapshot, list_blocks
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.engine import Engine
from tidemill.retention.garbage_collection import ReadNeed, find_collectable
from tidemill.runtime.inspect.block_trace import find_sources
from tidemill.runtime.maintenance.pins import pin_block
from tidemill.runtime.maintenance.vacuum import VacuumService
from tidemill.runtime.runs.execution import Executor
from tidemill.storage.local import LocalBlockStore

COPY = BoundFlow("copy", (task("copying", {"a": ReadMode.NEW, "b": ReadMode.ALL}, {"d": BlockKind.DELTA}),))
WHOLE = BoundFlow("whole", (task("counting", {"d": ReadMode.ALL}, {"e": BlockKind.BASE}),))
CHANNELS = (
    *(Channel(name, ChannelRole.INPUT, SCHEMA) for name in "ab"),
    *(Channel(name, ChannelRole.DERIVED) for name in "de"),
)
NAMES = [c.name for c in CHANNELS]


@pytest.fixture
def janitor(driver: Driver, tmp_path: Path) -> VacuumService:
    driver.catalog.apply_workflow(WorkflowSpec("w", CHANNELS, (COPY, WHOLE)))
    return VacuumService(Executor(driver.catalog, LocalBlockStore(tmp_path), cast(Engine, None), "me"))


def filled(driver: Driver, channel: str) -> list[Block]:
    return [b for b in driver.catalog.list_filled_blocks(channel) if b.origin is not BlockOrigin.FIRST]


def gone_by(driver: Driver, block: Block) -> set[int]:
    """Blocks that a pin should hold and that are not there: all that tracing leads to, step by step."""
    missing, known = set[int](), {block.id: block}
    todo = [block]
    while todo:
        here = todo.pop()
        missing |= set() if driver.catalog.read_block(here.id).state is BlockState.FILLED else {here.id}
        for source in find_sources(driver.catalog, here):
            todo += [b for b in source.blocks if b.id not in known]
            known |= {b.id: b for b in source.blocks}
    return missing


def readable(driver: Driver, channel: str, at: int) -> set[int]:
    known = driver.catalog.read_base_and_deltas(channel, at)
    return {b.id for b in list_blocks(build_snapshot(channel, SCHEMA, known, at))}


def step(driver: Driver, random: Random) -> None:
    """Something happens that makes blocks."""
    catalog = driver.catalog
    what = random.choice(["insert", "insert", "base", "copy", "copy", "whole", "fold", "compact"])
    channel = random.choice(NAMES)
    head = driver.head(channel)
    driver.clock.now += 1
    if what in ("insert", "base"):
        driver.insert(random.choice("ab"), kind=BlockKind.BASE if what == "base" else BlockKind.DELTA)
    elif what in ("copy", "whole"):
        driver.run_flow(COPY if what == "copy" else WHOLE)
    elif (
        what == "compact"
        and head
        and not any(b.kind is BlockKind.BASE and b.seq == head for b in catalog.list_filled_blocks(channel))
    ):
        driver.compact(channel, head)
    elif what == "fold":
        deltas = [b for b in filled(driver, channel) if b.kind is BlockKind.DELTA and b.seq <= head]
        pairs = [(b, c) for b in deltas for c in deltas if b.seq == c.since]
        if pairs:
            first, second = random.choice(pairs)
            if not any((b.since, b.seq) == (first.since, second.seq) for b in deltas):
                driver.fold(channel, first.since or 0, second.seq)


@pytest.mark.parametrize("seed", range(int(os.environ.get("TIDEMILL_EXAMPLES", "60")) // 30))
def test_collection_takes_what_nobody_needs_and_nothing_that_a_pin_reaches(
    driver: Driver, janitor: VacuumService, seed: int
) -> None:
    random, catalog = Random(seed), driver.catalog
    pinned: dict[int, tuple[Block, set[int]]] = {}
    for _ in range(60):
        step(driver, random)
        there = [b for name in NAMES for b in filled(driver, name)]
        if random.random() < 0.2 and there:
            chosen = catalog.read_block(random.choice(there).id)
            pinned[chosen.id] = chosen, gone_by(driver, chosen)
            pin_block(catalog, chosen.id)
        if random.random() < 0.1 and pinned:
            number = random.choice(list(pinned))
            del pinned[number]
            catalog.unpin_block(number)
        if random.random() < 0.3:
            points, since = random.choice([0, 2]), random.choice([None, int((driver.clock.now - 5) * 1e6)])
            janitor._collect_channels(catalog.list_channels(), since, points)
            for block, before in pinned.values():
                assert gone_by(driver, block) == before  # what was gone when it was pinned, and no more
                readable(driver, block.channel, block.seq)
    assert {b.id for name in NAMES for b in catalog.list_blocks(name, 1000) if b.pinned} == pinned.keys()
    for number in pinned:
        catalog.unpin_block(number)
    janitor.collect_garbage()
    for name in NAMES:  # all that is left is needed by who reads on
        needs = [ReadNeed(c.position.seq) for c in catalog.read_cursors(name)]
        assert find_collectable(catalog.list_filled_blocks(name), driver.head(name), needs) == []
        assert catalog.list_pinned_blocks(name) == set()


def test_a_pin_holds_a_block_and_what_it_was_made_from_back_to_the_inputs(
    driver: Driver, janitor: VacuumService
) -> None:
    driver.insert("b")
    old = driver.insert("a")
    (copied,) = driver.run_flow(COPY)
    (counted,) = driver.run_flow(WHOLE)
    assert pin_block(driver.catalog, counted.id) >= {counted.id, copied.id, old.id}
    for name in "ab":
        driver.insert(name, kind=BlockKind.BASE)
    for flow in (COPY, WHOLE):
        driver.run_flow(flow)
    driver.compact("d", driver.head("d"))
    janitor.collect_garbage()
    assert driver.catalog.read_block(counted.id).pinned
    assert {driver.catalog.read_block(b.id).state for b in (old, copied, counted)} == {BlockState.FILLED}
    driver.catalog.expire_runs("a", keep=1)
    driver.catalog.expire_runs("copy", keep=1)
    assert not any(s.expired for s in find_sources(driver.catalog, driver.catalog.read_block(copied.id)))
    driver.catalog.unpin_block(counted.id)
    janitor.collect_garbage()
    assert {driver.catalog.read_block(b.id).state for b in (copied, counted)} == {BlockState.COLLECTED}


def test_what_two_pins_hold_stays_until_both_are_gone(driver: Driver, janitor: VacuumService) -> None:
    driver.insert("b")
    old = driver.insert("a")
    (copied,) = driver.run_flow(COPY)
    for block in (old, copied):
        pin_block(driver.catalog, block.id)
    driver.insert("a", kind=BlockKind.BASE)
    driver.run_flow(COPY)
    for block, state in ((old, BlockState.FILLED), (copied, BlockState.COLLECTED)):
        driver.catalog.unpin_block(block.id)
        janitor.collect_garbage()
        assert driver.catalog.read_block(old.id).state is state


def test_what_is_gone_cannot_be_pinned(driver: Driver, janitor: VacuumService) -> None:
    old = driver.insert("a")
    driver.insert("a", kind=BlockKind.BASE)
    driver.run_flow(COPY)
    driver.catalog.collect_blocks([old.id])
    with pytest.raises(Conflict, match="is collected; only filled blocks can be pinned"):
        pin_block(driver.catalog, old.id)
    assert driver.catalog.list_pinned_blocks("a") == set()


def test_who_collects_what_was_pinned_meanwhile_leaves_it(driver: Driver, janitor: VacuumService) -> None:
    first, second = driver.insert("a"), driver.insert("a")
    pin_block(driver.catalog, first.id)
    driver.catalog.collect_blocks([first.id, second.id])
    assert [driver.catalog.read_block(b.id).state for b in (first, second)] == [BlockState.FILLED, BlockState.COLLECTED]


def test_what_was_collected_between_looking_and_pinning_is_told(driver: Driver, janitor: VacuumService) -> None:
    first, second = driver.insert("a"), driver.insert("a")
    driver.catalog.collect_blocks([first.id])
    with pytest.raises(Conflict, match="were garbage-collected meanwhile; pin it again"):
        driver.catalog.pin_block(second.id, {first.id, second.id})
    assert "block.pinned" not in driver.kinds_of_events()
