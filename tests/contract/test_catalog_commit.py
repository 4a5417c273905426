"""Commits: heads, links, versions, insert keys and cursors change all or none."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from tests.catalog.driver import (
    COPY,
    SCHEMA,
    Driver,
    build_insert_request,
    build_outcome,
    build_written_block,
    file_of,
    moves_of,
)

from tidemill.errors import Conflict, InsertInProgress
from tidemill.model.block import INITIAL_POSITION, Block, BlockKind, BlockOrigin, BlockState, ChannelPosition
from tidemill.model.identity import EMPTY_IDENTITY, compute_identity
from tidemill.model.provenance import EMPTY_PROVENANCE, Provenance
from tidemill.model.run import RunOutcome, RunState
from tidemill.model.schema import Schema


def test_a_channel_starts_with_an_empty_base(driver: Driver) -> None:
    (first,) = driver.catalog.blocks.read_base_and_deltas("a", at=0)
    assert (first.seq, first.kind, first.origin, first.state) == (
        0,
        BlockKind.BASE,
        BlockOrigin.FIRST,
        BlockState.FILLED,
    )
    assert (first.files, first.identity, first.content_identity, first.channel_provenance) == (
        (),
        EMPTY_IDENTITY,
        EMPTY_IDENTITY,
        EMPTY_PROVENANCE,
    )
    assert (first.version, first.schema) == (None, SCHEMA)
    assert driver.catalog.channels.read("a").head == INITIAL_POSITION


def test_an_insert_has_a_version_and_a_position(driver: Driver) -> None:
    claim = driver.open_insert()
    (block,) = driver.commit(claim, log="fine")
    version = block.version
    assert version == driver.clock.now * 1_000_000 + 1  # the fencing token has the previous reading
    provenance = Provenance.from_pathways({("a",): [version]})
    assert (block.since, block.source, block.target, block.channel_provenance) == (
        0,
        EMPTY_PROVENANCE,
        provenance,
        provenance,
    )
    assert block.content_identity == compute_identity(EMPTY_IDENTITY, block.identity)
    assert (block.files, block.schema) == ((file_of(claim, claim.reservations[None, "a"]),), SCHEMA)
    assert (block.origin, block.run, block.state) == (BlockOrigin.INSERT, claim.run.id, BlockState.FILLED)
    assert driver.catalog.blocks.read(block.id) == block
    assert driver.catalog.blocks.list_written(claim.run.id) == [block]
    channel = driver.catalog.channels.read("a")
    assert channel.head == ChannelPosition(1, block.channel_provenance, block.content_identity)
    assert (channel.blocks, channel.rows, channel.bytes, channel.reserved) == (2, 2, 10, 0)
    run = driver.catalog.runs.read(claim.run.id)
    assert (run.state, run.finished, run.stats) == (RunState.FINISHED, driver.clock.now, {"seconds": 1})
    assert driver.catalog.runs.read_log(run.id) == "fine"
    assert driver.kinds_of_events(run.id)[2:] == ["run.finished", "block.filled", "channel.advanced"]
    assert driver.kinds_of_events()[-1] == "channel.advanced"


def test_a_base_replaces_the_channels_provenance(driver: Driver) -> None:
    driver.insert()
    block = driver.insert(kind=BlockKind.BASE)
    assert (block.since, block.content_identity, block.channel_provenance) == (None, block.identity, block.target)
    assert driver.seqs() == [2]


def test_a_derived_block_keeps_its_own_provenance(driver: Driver) -> None:
    driver.insert("a")
    (block,) = driver.run_flow()
    assert (block.version, block.origin, block.task) == (None, BlockOrigin.RUN, "copying")
    assert block.target == block.channel_provenance == Provenance.from_pathways({("a",): [1], ("b",): [0]})
    assert driver.catalog.channels.read("d").channel.schema == SCHEMA


def test_the_head_waits_for_reserved_blocks(driver: Driver) -> None:
    first, second, third = (driver.open_insert() for _ in range(3))
    (waiting,) = driver.commit(second)
    assert (waiting.state, waiting.since, waiting.version) == (BlockState.FILLED, None, None)
    assert (driver.head(), driver.seqs()) == (0, [0])
    assert driver.catalog.blocks.list_deltas("a", 0, 9) == []
    assert driver.catalog.channels.read_position("a", seq=2) == INITIAL_POSITION
    driver.commit(first)
    assert (driver.head(), driver.seqs()) == (2, [0, 1, 2])
    driver.commit(third)
    assert driver.seqs() == [0, 1, 2, 3]
    check_links(driver.catalog.blocks.list_deltas("a", 0, 3))


@pytest.mark.parametrize("ending", ["fail", "kill", "reclaim"])
def test_the_head_skips_cancelled_blocks(driver: Driver, ending: str) -> None:
    driver.insert()
    lost = driver.open_insert()
    driver.clock.now += 1
    successor = driver.open_insert()
    driver.commit(successor)
    assert driver.head() == 1
    driver.clock.now += 59
    {
        "fail": lambda: driver.catalog.runs.fail(lost.run.id, lost.run.fencing_token, error="x"),
        "kill": lambda: driver.catalog.runs.kill(lost.run.id),
        "reclaim": driver.catalog.runs.reclaim_expired,
    }[ending]()
    assert (driver.head(), driver.seqs()) == (3, [0, 1, 3])
    check_links(driver.catalog.blocks.list_deltas("a", 0, 3))


def check_links(blocks: list[Block]) -> None:
    assert blocks[0].since == 0
    for before, after in pairwise(blocks):
        assert after.since == before.seq
        assert after.version > before.version
        assert after.source == before.channel_provenance
        assert after.content_identity == compute_identity(before.content_identity, after.identity)


def test_versions_increase_when_the_clock_goes_back(driver: Driver) -> None:
    first = driver.insert("a")
    driver.clock.now -= 500
    assert driver.insert("b").version > first.version


def test_exactly_the_reserved_blocks_must_be_written(driver: Driver) -> None:
    claim, other = driver.open_insert(), driver.open_insert()
    own, foreign = (build_written_block(c, c.reservations[None, "a"]) for c in (claim, other))
    for wrong in ((), (own, foreign), (foreign,), (own, own)):
        with pytest.raises(Conflict, match="write exactly the reserved blocks"):
            driver.catalog.runs.commit(claim, RunOutcome(wrong))
    assert driver.catalog.runs.read(claim.run.id).state is RunState.SUBMITTED
    assert driver.catalog.files.list_referenced() == set()
    driver.commit(claim)


def test_an_undeclared_schema_is_that_of_the_newest_visible_block(driver: Driver) -> None:
    old, new = driver.open_insert("d"), driver.open_insert("d")
    wider = Schema.from_ddl("x int, y string")
    driver.catalog.runs.commit(new, RunOutcome((build_written_block(new, new.reservations[None, "d"], wider),)))
    assert driver.catalog.channels.read("d").channel.schema is None
    driver.commit(old)
    assert driver.catalog.channels.read("d").channel.schema == wider


def test_a_block_may_be_empty(driver: Driver) -> None:
    claim = driver.open_insert()
    nothing = replace(build_written_block(claim, claim.reservations[None, "a"]), files=())
    (block,) = driver.catalog.runs.commit(claim, RunOutcome((nothing,)))
    assert (block.files, driver.head()) == ((), 1)


def test_an_insert_key_is_used_once(driver: Driver) -> None:
    assert driver.catalog.blocks.find_inserted("a", ["k"]) == {}
    claim = driver.open_insert(key="k")
    assert driver.catalog.blocks.find_inserted("a", ["k"]) == {}
    another = driver.request()
    with pytest.raises(InsertInProgress, match=f"an insert with the key 'k' is in progress.*run {claim.run.id}"):
        driver.claim(another, build_insert_request(key="k"))
    (block,) = driver.commit(claim)
    assert driver.catalog.blocks.find_inserted("a", ["k", "other"]) == {"k": block}
    with pytest.raises(Conflict, match="filled"):
        driver.claim(another, build_insert_request(key="k"))
    assert driver.insert("b", key="k").channel == "b"


def test_an_insert_key_can_be_reused_when_its_run_failed(driver: Driver) -> None:
    claim = driver.open_insert(key="k", attempts=2)
    driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="x", retry_in=0)
    driver.commit(driver.claim(claim.run.id, build_insert_request(key="k")))
    assert driver.catalog.blocks.find_inserted("a", ["k"])["k"].seq == 2


def test_cursors_advance_with_the_commit(driver: Driver) -> None:
    driver.insert("a")
    claim = driver.open_flow()
    driver.insert("a")
    assert driver.catalog.channels.read_cursors() == []
    driver.commit(claim, moves_of(claim))
    (cursor,) = driver.catalog.channels.read_cursors("a")
    assert (cursor.binding, cursor.task, cursor.channel) == ("copy", "copying", "a")
    assert cursor.position == claim.spans["copying", "a"].upto
    again = driver.open_flow()
    span = again.spans["copying", "a"]
    assert (span.since, span.upto.seq) == (cursor.position, 2)
    driver.commit(again, moves_of(again))
    assert driver.catalog.channels.read_cursors("a")[0].position == span.upto
    assert driver.catalog.channels.read_cursors("b") == []


@pytest.mark.parametrize("since", [0, 2])
def test_a_cursor_advances_only_from_its_position(driver: Driver, since: int) -> None:
    driver.insert("a")
    driver.run_flow()
    driver.insert("a")
    claim = driver.open_flow()
    (move,) = [m for m in moves_of(claim) if m.since is not None]
    with pytest.raises(Conflict, match=f"is at 1, not at {since}"):
        driver.catalog.runs.commit(claim, build_outcome(claim, [replace(move, since=since)]))
    assert driver.catalog.channels.read_cursors()[0].position.seq == 1
    assert driver.head("d") == 1
    driver.commit(claim, [move])


def test_a_new_cursor_starts_at_the_beginning(driver: Driver) -> None:
    driver.insert("a")
    claim = driver.open_flow()
    (move,) = [m for m in moves_of(claim) if m.since is not None]
    with pytest.raises(Conflict, match="is at 0, not at 1"):
        driver.catalog.runs.commit(claim, build_outcome(claim, [replace(move, since=1)]))


def test_a_failed_run_moves_no_cursor(driver: Driver) -> None:
    driver.insert("a")
    claim = driver.open_flow(attempts=2)
    driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="x", retry_in=0)
    assert driver.catalog.channels.read_cursors() == []
    assert driver.open_flow(COPY).spans["copying", "a"].since == INITIAL_POSITION


def test_reads_are_recorded_by_run_and_by_block(driver: Driver) -> None:
    driver.insert("a")
    driver.insert("b")
    (first,) = driver.run_flow()
    driver.insert("a")
    (second,) = driver.run_flow()
    spans = [(r.task, r.channel, r.since, r.upto) for r in driver.catalog.runs.list_reads(second.run)]
    assert spans == [("copying", "a", 1, 2), ("copying", "b", None, 1)]
    assert [r.run for r in driver.catalog.runs.list_block_reads("a", 1)] == [first.run]
    assert [r.run for r in driver.catalog.runs.list_block_reads("a", 2)] == [second.run]
    assert [r.run for r in driver.catalog.runs.list_block_reads("b", 1)] == [first.run, second.run]
    assert driver.catalog.runs.list_block_reads("b", 2) == []


def test_unfinished_runs_record_no_reads(driver: Driver) -> None:
    driver.insert("a")
    claim = driver.open_flow()
    assert driver.catalog.runs.list_reads(claim.run.id) == []
    driver.catalog.runs.kill(claim.run.id)
    assert driver.catalog.runs.list_block_reads("a", 1) == []
