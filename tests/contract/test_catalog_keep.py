"""Compaction and collection: what stands in for blocks, and what becomes of their files."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.catalog.driver import LEASE, Driver, base, file_of

from tidemill.errors import Conflict, LeaseLost, NotFound
from tidemill.model.block import BlockKind, BlockOrigin, BlockState, DataFile
from tidemill.model.run import RunState


def test_a_compacted_base_stands_beside_the_deltas(driver: Driver) -> None:
    driver.insert()
    second = driver.insert()
    driver.insert()
    claim = driver.open_compaction()
    made = driver.catalog.commit_compaction(claim, base(claim, "a", 2), log="done")
    assert (made.seq, made.kind, made.origin, made.since) == (2, BlockKind.BASE, BlockOrigin.COMPACTION, None)
    assert (made.identity, made.content_identity) == (second.content_identity, second.content_identity)
    assert (made.target, made.channel_provenance, made.version) == (
        second.channel_provenance,
        second.channel_provenance,
        second.version,
    )
    assert driver.catalog.read_run(claim.run.id).state is RunState.FINISHED
    assert driver.catalog.read_log(claim.run.id) == "done"
    assert [(b.seq, b.kind) for b in driver.catalog.read_base_and_deltas("a", 3)] == [(2, "base"), (3, "delta")]
    assert [b.seq for b in driver.catalog.read_base_and_deltas("a", 1)] == [0, 1]
    assert [b.seq for b in driver.catalog.list_deltas("a", 0, 3)] == [1, 2, 3]
    assert driver.catalog.read_position("a", seq=2).content_identity == second.content_identity
    channel = driver.catalog.read_channel("a")
    assert (channel.head.seq, channel.blocks, channel.rows) == (3, 5, 3 * 2 + 4)


@pytest.mark.parametrize("seq", [0, 1])
def test_there_is_one_base_a_position(driver: Driver, seq: int) -> None:
    driver.insert(kind=BlockKind.BASE)
    with pytest.raises(Conflict, match=f"already has a base at {seq}"):
        driver.compact("a", seq)


def test_only_what_can_be_read_is_compacted(driver: Driver) -> None:
    driver.catalog.kill_run(driver.open_insert().run.id)
    driver.open_insert()
    driver.insert()
    for seq in (1, 2, 3, 4):  # cancelled, reserved, above the head, never there
        claim = driver.open_compaction()
        with pytest.raises(Conflict, match=f"no filled delta at {seq}"):
            driver.catalog.commit_compaction(claim, base(claim, "a", seq))
        assert driver.catalog.read_run(claim.run.id).state is RunState.SUBMITTED


def test_a_compaction_needs_its_lease(driver: Driver) -> None:
    driver.insert()
    claim = driver.open_compaction()
    driver.clock.now += LEASE
    with pytest.raises(LeaseLost):
        driver.catalog.commit_compaction(claim, base(claim, "a", 1))
    assert driver.seqs() == [0, 1]


def test_a_compaction_cannot_share_files_purged_meanwhile(driver: Driver) -> None:
    old = driver.insert(kind=BlockKind.BASE)
    driver.insert()
    driver.catalog.collect_blocks([old.id])
    driver.catalog.purge_blocks()
    claim = driver.open_compaction()
    with pytest.raises(Conflict, match="1 files were purged"):
        driver.catalog.commit_compaction(claim, base(claim, "a", 2, old.files))


def test_a_file_shared_after_its_block_was_collected_stays(driver: Driver) -> None:
    old = driver.insert(kind=BlockKind.BASE)
    driver.insert()
    claim = driver.open_compaction()
    driver.catalog.collect_blocks([old.id])
    driver.catalog.commit_compaction(claim, base(claim, "a", 2, old.files))
    assert driver.catalog.purge_blocks() == []
    assert old.files[0].path in driver.catalog.list_referenced_files()


def test_collecting_hides_and_keeps_the_description(driver: Driver) -> None:
    block = driver.insert(key="k")
    driver.insert()
    driver.compact("a", 2)
    driver.catalog.collect_blocks([block.id])
    kept = driver.catalog.read_block(block.id)
    assert (kept.state, kept.content_identity) == (BlockState.COLLECTED, block.content_identity)
    assert [b.seq for b in driver.catalog.list_deltas("a", 0, 2)] == [2]
    assert [(b.seq, b.kind) for b in driver.catalog.list_filled_blocks("a")] == [(0, "base"), (2, "delta"), (2, "base")]
    assert driver.catalog.find_inserted_blocks("a", ["k"]) == {"k": kept}
    channel = driver.catalog.read_channel("a")
    assert (channel.blocks, channel.rows, channel.bytes) == (3, 6, 30)
    assert driver.kinds_of_events()[-1] == "block.collected"


def test_purging_forgets_the_files_of_collected_blocks(driver: Driver) -> None:
    block, other = driver.insert(), driver.insert()
    driver.catalog.collect_blocks([block.id])
    assert driver.catalog.list_referenced_files() == {f.path for b in (block, other) for f in b.files}
    assert driver.catalog.purge_blocks() == [block.files[0].path]
    assert driver.catalog.list_referenced_files() == {other.files[0].path}
    assert driver.catalog.read_block(block.id).files == ()
    assert driver.kinds_of_events()[-1] == "block.purged"
    assert driver.catalog.purge_blocks() == []


def test_files_stay_while_a_run_may_read_them(driver: Driver) -> None:
    block, other = driver.insert(), driver.insert()
    reading = driver.open_flow()
    driver.catalog.collect_blocks([block.id])
    assert driver.catalog.purge_blocks() == []
    later = driver.open_insert("b")
    driver.catalog.collect_blocks([other.id])
    driver.catalog.kill_run(reading.run.id)
    assert driver.catalog.purge_blocks() == [block.files[0].path]
    driver.commit(later)
    assert driver.catalog.purge_blocks() == [other.files[0].path]


def test_a_collected_point_is_still_a_position(driver: Driver) -> None:
    """Falling back to an older point would pass for the content at this one."""
    block = driver.insert()
    driver.insert()
    driver.compact("a", 2)
    driver.catalog.collect_blocks([block.id])
    assert driver.catalog.read_position("a", seq=1).content_identity == block.content_identity
    assert driver.catalog.read_position("a", version=block.version).seq == 1
    assert [b.seq for b in driver.catalog.read_base_and_deltas("a", 1)] == [0]


def test_shared_files_go_with_the_last_block_that_names_them(driver: Driver) -> None:
    first = driver.insert(kind=BlockKind.BASE)
    driver.insert()
    claim = driver.open_compaction()
    own = DataFile(f"{claim.directory}/rest.parquet", 1, 1)
    second = driver.catalog.commit_compaction(claim, base(claim, "a", 2, [*first.files, own]))
    assert collected(driver, [first.id]) == []
    assert driver.catalog.list_referenced_files() >= {first.files[0].path, own.path}
    assert collected(driver, [second.id]) == sorted([first.files[0].path, own.path])


def collected(driver: Driver, blocks: Iterable[int]) -> list[str]:
    driver.catalog.collect_blocks(blocks)
    return driver.catalog.purge_blocks()


def test_blocks_that_share_files_can_go_together(driver: Driver) -> None:
    first = driver.insert(kind=BlockKind.BASE)
    driver.insert()
    second = driver.compact("a", 2, first.files)
    assert collected(driver, [first.id, second.id]) == [first.files[0].path]


def test_only_filled_blocks_are_collected(driver: Driver) -> None:
    block = driver.insert()
    claim = driver.open_insert()
    reserved = claim.reservations[None, "a"].block
    with pytest.raises(Conflict, match=f"block {reserved} is reserved"):
        driver.catalog.collect_blocks([block.id, reserved])
    assert driver.catalog.read_block(block.id) == block
    driver.catalog.collect_blocks([block.id])
    with pytest.raises(Conflict, match=f"block {block.id} is collected"):
        driver.catalog.collect_blocks([block.id])
    with pytest.raises(NotFound, match="there is no block 999; the newest is"):
        driver.catalog.collect_blocks([999])


def test_collecting_nothing_changes_nothing(driver: Driver) -> None:
    before = driver.kinds_of_events()
    assert collected(driver, []) == []
    assert driver.kinds_of_events() == before


def test_collecting_a_great_many(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.catalog.garbage_collection._BATCH_SIZE", 2)
    first = driver.insert(kind=BlockKind.BASE)
    blocks = [first, *(driver.insert() for _ in range(4))]
    shared = driver.compact("a", 5, first.files)
    gone = collected(driver, (b.id for b in [*blocks, shared]))
    assert sorted(gone) == sorted(f.path for b in blocks for f in b.files)
    assert driver.catalog.list_referenced_files() == set()
    channel = driver.catalog.read_channel("a")
    assert (channel.blocks, channel.rows, channel.bytes) == (1, 0, 0)


def test_files_of_open_runs_are_in_active_directories(driver: Driver) -> None:
    claim = driver.open_insert()
    path = file_of(claim, claim.reservations[None, "a"]).path
    assert any(path.startswith(f"{d}/") for d in driver.catalog.list_active_directories())
    driver.commit(claim)
    assert driver.catalog.list_active_directories() == set()
    assert driver.catalog.list_referenced_files() == {path}
