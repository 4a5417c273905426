"""Catalog reads that other tests do not cover."""

from __future__ import annotations

import pytest
from tests.catalog.driver import Driver

from tidemill.errors import NotFound
from tidemill.model.block import INITIAL_POSITION, BlockKind, BlockState


def test_positions_are_found_by_sequence_number(driver: Driver) -> None:
    first = driver.insert()
    driver.catalog.runs.kill(driver.open_insert().run.id)
    last = driver.insert()
    position = driver.catalog.channels.read_position
    head = driver.catalog.channels.read("a").head
    assert [position("a", seq=n).seq for n in (-1, 0, 1, 2, 3, 99)] == [0, 0, 1, 1, 3, 3]
    assert position("a", seq=1).content_identity == first.content_identity
    assert position("a") == head == position("a", seq=3)
    assert head.content_identity == last.content_identity


def test_positions_are_found_by_version(driver: Driver) -> None:
    first = driver.insert()
    driver.clock.now += 10
    second = driver.insert()
    position = driver.catalog.channels.read_position
    assert position("a", version=0) == INITIAL_POSITION
    assert position("a", version=first.version - 1) == INITIAL_POSITION
    assert position("a", version=first.version).seq == 1
    assert position("a", version=second.version - 1).seq == 1
    assert position("a", version=second.version + 10**9).seq == 2


def test_blocks_of_derived_channels_are_dated_by_their_visibility(driver: Driver) -> None:
    driver.run_flow()
    between = int((driver.clock.now + 5) * 1_000_000)
    driver.clock.now += 10
    driver.run_flow()
    assert driver.catalog.channels.read_position("d", version=between).seq == 1
    assert driver.catalog.channels.read_position("d", version=between - 10_000_000) == INITIAL_POSITION


def test_a_block_is_dated_by_the_time_it_became_readable(driver: Driver) -> None:
    first = driver.open_insert()
    second = driver.open_insert()
    driver.commit(second)
    filled_at = int((driver.clock.now + 5) * 1_000_000)
    driver.clock.now += 10
    driver.commit(first)
    assert driver.catalog.channels.read_position("a", version=filled_at) == INITIAL_POSITION


def test_blocks_are_listed_newest_first(driver: Driver) -> None:
    one = driver.insert("a")
    other = driver.insert("b")
    reserved = driver.open_insert("a").reservations[None, "a"].block
    blocks = driver.catalog.blocks.list
    assert [b.id for b in blocks()][:3] == [reserved, other.id, one.id]
    assert [b.id for b in blocks(limit=1)] == [reserved]
    assert [(b.seq, b.state) for b in blocks("a")] == [
        (2, BlockState.RESERVED),
        (1, BlockState.FILLED),
        (0, BlockState.FILLED),
    ]


def test_readers_start_at_the_newest_base_before_their_position(driver: Driver) -> None:
    for kind in (BlockKind.DELTA, BlockKind.BASE, BlockKind.DELTA):
        driver.insert(kind=kind)
    read = driver.catalog.blocks.read_base_and_deltas
    assert [[b.seq for b in read("a", n)] for n in range(5)] == [[0], [0, 1], [2], [2, 3], [2, 3]]
    assert [b.seq for b in driver.catalog.blocks.list_deltas("a", 0, 3)] == [1, 3]
    driver.catalog.blocks.collect([b.id for b in driver.catalog.blocks.list("a") if b.kind is BlockKind.BASE])
    assert read("a", 3) == []


def test_unknown_names_are_not_found(driver: Driver) -> None:
    c = driver.catalog
    for ask in (
        c.channels.read,
        c.channels.read_cursors,
        c.blocks.list,
        c.blocks.list_filled,
        c.channels.read_position,
        lambda name: c.blocks.read_base_and_deltas(name, 1),
        lambda name: c.blocks.list_deltas(name, 0, 1),
        lambda name: c.runs.list_block_reads(name, 1),
        lambda name: c.blocks.find_inserted(name, ["k"]),
    ):
        with pytest.raises(NotFound, match="there is no channel 'zz'; known are a, b, d"):
            ask("zz")
    with pytest.raises(NotFound, match="there is no block 99; the newest is 3"):
        c.blocks.read(99)


def test_events_are_listed_from_the_last_known_one(driver: Driver) -> None:
    first_events = driver.catalog.events.list(limit=2)
    rest = driver.catalog.events.list(after=first_events[-1].id)
    assert [e.id for e in first_events + rest] == [e.id for e in driver.catalog.events.list()]
    assert all(e.at == driver.clock.now for e in rest)


def test_a_base_is_found_by_its_identity_while_it_is_readable(driver: Driver) -> None:
    delta, base = driver.insert(), driver.insert(kind=BlockKind.BASE)
    driver.insert(kind=BlockKind.BASE)
    assert driver.catalog.blocks.find_base(base.identity) == driver.catalog.blocks.read(base.id)
    assert driver.catalog.blocks.find_base(delta.identity) is None
    driver.catalog.blocks.collect([base.id])
    assert driver.catalog.blocks.find_base(base.identity) is None
