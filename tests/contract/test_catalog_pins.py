"""Pinned blocks are retained with all blocks that they were computed from; nothing else is retained."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import cast

import pytest
from tests.catalog.driver import SCHEMA, Driver, task
from tests.databases import LONG_ON_POSTGRESQL

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
def vacuum(driver: Driver, tmp_path: Path) -> VacuumService:
    driver.catalog.workflows.apply(WorkflowSpec("w", CHANNELS, (COPY, WHOLE)))
    return VacuumService(Executor(driver.catalog, LocalBlockStore(tmp_path), cast(Engine, None), "me"))


def list_written_blocks(driver: Driver, channel: str) -> list[Block]:
    return [b for b in driver.catalog.blocks.list_filled(channel) if b.origin is not BlockOrigin.FIRST]


def find_missing(driver: Driver, block: Block) -> set[int]:
    """The missing blocks among those that a pin should retain, found by tracing step by step."""
    missing, visited = set[int](), {block.id: block}
    todo = [block]
    while todo:
        current = todo.pop()
        missing |= set() if driver.catalog.blocks.read(current.id).state is BlockState.FILLED else {current.id}
        for source in find_sources(driver.catalog, current):
            todo += [b for b in source.blocks if b.id not in visited]
            visited |= {b.id: b for b in source.blocks}
    return missing


def list_readable(driver: Driver, channel: str, seq: int) -> set[int]:
    blocks = driver.catalog.blocks.read_base_and_deltas(channel, seq)
    return {b.id for b in list_blocks(build_snapshot(channel, SCHEMA, blocks, seq))}


def step(driver: Driver, random: Random) -> None:
    """A random operation that writes blocks."""
    catalog = driver.catalog
    operation = random.choice(["insert", "insert", "base", "copy", "copy", "whole", "minor", "compact"])
    channel = random.choice(NAMES)
    head = driver.head(channel)
    driver.clock.now += 1
    if operation in ("insert", "base"):
        driver.insert(random.choice("ab"), kind=BlockKind.BASE if operation == "base" else BlockKind.DELTA)
    elif operation in ("copy", "whole"):
        driver.run_flow(COPY if operation == "copy" else WHOLE)
    elif (
        operation == "compact"
        and head
        and not any(b.kind is BlockKind.BASE and b.seq == head for b in catalog.blocks.list_filled(channel))
    ):
        driver.compact(channel, head)
    elif operation == "minor":
        deltas = [b for b in list_written_blocks(driver, channel) if b.kind is BlockKind.DELTA and b.seq <= head]
        pairs = [(b, c) for b in deltas for c in deltas if b.seq == c.since]
        if pairs:
            first, second = random.choice(pairs)
            if not any((b.since, b.seq) == (first.since, second.seq) for b in deltas):
                driver.compact_minor(channel, first.since or 0, second.seq)


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
@pytest.mark.parametrize("seed", range(int(os.environ.get("TIDEMILL_EXAMPLES", "30")) // 30))
def test_collection_deletes_unneeded_blocks_and_none_that_a_pin_reaches(
    driver: Driver, vacuum: VacuumService, seed: int
) -> None:
    random, catalog = Random(seed), driver.catalog
    pinned: dict[int, tuple[Block, set[int]]] = {}
    for _ in range(60):
        step(driver, random)
        blocks = [b for name in NAMES for b in list_written_blocks(driver, name)]
        if random.random() < 0.2 and blocks:
            chosen = catalog.blocks.read(random.choice(blocks).id)
            pinned[chosen.id] = chosen, find_missing(driver, chosen)
            pin_block(catalog, chosen.id)
        if random.random() < 0.1 and pinned:
            number = random.choice(list(pinned))
            del pinned[number]
            catalog.blocks.unpin(number)
        if random.random() < 0.3:
            points, since = random.choice([0, 2]), random.choice([None, int((driver.clock.now - 5) * 1e6)])
            vacuum._collect_channels(catalog.channels.list(), since, points)
            for block, before in pinned.values():
                assert find_missing(driver, block) == before  # only the blocks that were missing when it was pinned
                list_readable(driver, block.channel, block.seq)
    assert {b.id for name in NAMES for b in catalog.blocks.list(name, 1000) if b.pinned} == pinned.keys()
    for number in pinned:
        catalog.blocks.unpin(number)
    vacuum.collect_garbage()
    for name in NAMES:  # readers need all remaining blocks
        needs = [ReadNeed(c.position.seq) for c in catalog.channels.read_cursors(name)]
        assert find_collectable(catalog.blocks.list_filled(name), driver.head(name), needs) == []
        assert catalog.blocks.list_pinned(name) == set()


def test_a_pin_retains_a_block_and_its_sources_back_to_the_inputs(driver: Driver, vacuum: VacuumService) -> None:
    driver.insert("b")
    old = driver.insert("a")
    (copy_block,) = driver.run_flow(COPY)
    (count_block,) = driver.run_flow(WHOLE)
    assert pin_block(driver.catalog, count_block.id) >= {count_block.id, copy_block.id, old.id}
    for name in "ab":
        driver.insert(name, kind=BlockKind.BASE)
    for flow in (COPY, WHOLE):
        driver.run_flow(flow)
    driver.compact("d", driver.head("d"))
    vacuum.collect_garbage()
    assert driver.catalog.blocks.read(count_block.id).pinned
    assert {driver.catalog.blocks.read(b.id).state for b in (old, copy_block, count_block)} == {BlockState.FILLED}
    driver.catalog.runs.expire("a", retain=1)
    driver.catalog.runs.expire("copy", retain=1)
    assert not any(s.expired for s in find_sources(driver.catalog, driver.catalog.blocks.read(copy_block.id)))
    driver.catalog.blocks.unpin(count_block.id)
    vacuum.collect_garbage()
    assert {driver.catalog.blocks.read(b.id).state for b in (copy_block, count_block)} == {BlockState.COLLECTED}


def test_a_block_with_two_pins_is_retained_until_both_are_removed(driver: Driver, vacuum: VacuumService) -> None:
    driver.insert("b")
    old = driver.insert("a")
    (copy_block,) = driver.run_flow(COPY)
    for block in (old, copy_block):
        pin_block(driver.catalog, block.id)
    driver.insert("a", kind=BlockKind.BASE)
    driver.run_flow(COPY)
    for block, state in ((old, BlockState.FILLED), (copy_block, BlockState.COLLECTED)):
        driver.catalog.blocks.unpin(block.id)
        vacuum.collect_garbage()
        assert driver.catalog.blocks.read(old.id).state is state


def test_a_collected_block_cannot_be_pinned(driver: Driver, vacuum: VacuumService) -> None:
    old = driver.insert("a")
    driver.insert("a", kind=BlockKind.BASE)
    driver.run_flow(COPY)
    driver.catalog.blocks.collect([old.id])
    with pytest.raises(Conflict, match="is collected; only filled blocks can be pinned"):
        pin_block(driver.catalog, old.id)
    assert driver.catalog.blocks.list_pinned("a") == set()


def test_a_collection_skips_blocks_that_were_pinned_meanwhile(driver: Driver, vacuum: VacuumService) -> None:
    first, second = driver.insert("a"), driver.insert("a")
    pin_block(driver.catalog, first.id)
    driver.catalog.blocks.collect([first.id, second.id])
    assert [driver.catalog.blocks.read(b.id).state for b in (first, second)] == [
        BlockState.FILLED,
        BlockState.COLLECTED,
    ]


def test_a_pin_whose_sources_were_collected_meanwhile_fails(driver: Driver, vacuum: VacuumService) -> None:
    first, second = driver.insert("a"), driver.insert("a")
    driver.catalog.blocks.collect([first.id])
    with pytest.raises(Conflict, match="were garbage-collected meanwhile; pin it again"):
        driver.catalog.blocks.pin(second.id, {first.id, second.id})
    assert "block.pinned" not in driver.kinds_of_events()
