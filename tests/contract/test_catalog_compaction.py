"""Major compaction and garbage collection: replacement bases, and the removal of files."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.catalog.driver import LEASE, Driver, build_base, file_of

from tidemill.errors import Conflict, LeaseLost, NotFound
from tidemill.model.block import BlockKind, BlockOrigin, BlockState, DataFile
from tidemill.model.run import RunState


def test_a_compacted_base_is_stored_next_to_the_deltas(driver: Driver) -> None:
    driver.insert()
    second = driver.insert()
    driver.insert()
    claim = driver.open_compaction()
    compacted = driver.catalog.runs.commit_compaction(claim, build_base(claim, "a", 2), log="done")
    assert (compacted.seq, compacted.kind, compacted.origin, compacted.since) == (
        2,
        BlockKind.BASE,
        BlockOrigin.COMPACTION,
        None,
    )
    assert (compacted.identity, compacted.content_identity) == (second.content_identity, second.content_identity)
    assert (compacted.target, compacted.channel_provenance, compacted.version) == (
        second.channel_provenance,
        second.channel_provenance,
        second.version,
    )
    assert driver.catalog.runs.read(claim.run.id).state is RunState.FINISHED
    assert driver.catalog.runs.read_log(claim.run.id) == "done"
    assert [(b.seq, b.kind) for b in driver.catalog.blocks.read_base_and_deltas("a", 3)] == [(2, "base"), (3, "delta")]
    assert [b.seq for b in driver.catalog.blocks.read_base_and_deltas("a", 1)] == [0, 1]
    assert [b.seq for b in driver.catalog.blocks.list_deltas("a", 0, 3)] == [1, 2, 3]
    assert driver.catalog.channels.read_position("a", seq=2).content_identity == second.content_identity
    channel = driver.catalog.channels.read("a")
    assert (channel.head.seq, channel.blocks, channel.rows) == (3, 5, 3 * 2 + 4)


@pytest.mark.parametrize("seq", [0, 1])
def test_a_position_has_at_most_one_base(driver: Driver, seq: int) -> None:
    driver.insert(kind=BlockKind.BASE)
    with pytest.raises(Conflict, match=f"already has a base at {seq}"):
        driver.compact("a", seq)


def test_only_visible_blocks_are_compacted(driver: Driver) -> None:
    driver.catalog.runs.kill(driver.open_insert().run.id)
    driver.open_insert()
    driver.insert()
    for seq in (1, 2, 3, 4):  # cancelled, reserved, above the head, nonexistent
        claim = driver.open_compaction()
        with pytest.raises(Conflict, match=f"no filled delta at {seq}"):
            driver.catalog.runs.commit_compaction(claim, build_base(claim, "a", seq))
        assert driver.catalog.runs.read(claim.run.id).state is RunState.SUBMITTED


def test_a_compaction_needs_its_lease(driver: Driver) -> None:
    driver.insert()
    claim = driver.open_compaction()
    driver.clock.now += LEASE
    with pytest.raises(LeaseLost):
        driver.catalog.runs.commit_compaction(claim, build_base(claim, "a", 1))
    assert driver.seqs() == [0, 1]


def test_a_compaction_cannot_share_purged_files(driver: Driver) -> None:
    old = driver.insert(kind=BlockKind.BASE)
    driver.insert()
    driver.catalog.blocks.collect([old.id])
    driver.catalog.blocks.purge()
    claim = driver.open_compaction()
    with pytest.raises(Conflict, match="1 files were purged"):
        driver.catalog.runs.commit_compaction(claim, build_base(claim, "a", 2, old.files))


def test_a_file_that_is_shared_after_its_block_was_collected_is_kept(driver: Driver) -> None:
    old = driver.insert(kind=BlockKind.BASE)
    driver.insert()
    claim = driver.open_compaction()
    driver.catalog.blocks.collect([old.id])
    driver.catalog.runs.commit_compaction(claim, build_base(claim, "a", 2, old.files))
    assert driver.catalog.blocks.purge() == []
    assert old.files[0].path in driver.catalog.files.list_referenced()


def test_a_collected_block_is_hidden_but_still_described(driver: Driver) -> None:
    block = driver.insert(key="k")
    driver.insert()
    driver.compact("a", 2)
    driver.catalog.blocks.collect([block.id])
    collected_block = driver.catalog.blocks.read(block.id)
    assert (collected_block.state, collected_block.content_identity) == (BlockState.COLLECTED, block.content_identity)
    assert [b.seq for b in driver.catalog.blocks.list_deltas("a", 0, 2)] == [2]
    assert [(b.seq, b.kind) for b in driver.catalog.blocks.list_filled("a")] == [(0, "base"), (2, "delta"), (2, "base")]
    assert driver.catalog.blocks.find_inserted("a", ["k"]) == {"k": collected_block}
    channel = driver.catalog.channels.read("a")
    assert (channel.blocks, channel.rows, channel.bytes) == (3, 6, 30)
    assert driver.kinds_of_events()[-1] == "block.collected"


def test_purging_removes_the_files_of_collected_blocks(driver: Driver) -> None:
    block, other = driver.insert(), driver.insert()
    driver.catalog.blocks.collect([block.id])
    assert driver.catalog.files.list_referenced() == {f.path for b in (block, other) for f in b.files}
    assert driver.catalog.blocks.purge() == [block.files[0].path]
    assert driver.catalog.files.list_referenced() == {other.files[0].path}
    assert driver.catalog.blocks.read(block.id).files == ()
    assert driver.kinds_of_events()[-1] == "block.purged"
    assert driver.catalog.blocks.purge() == []


def test_files_are_not_purged_while_a_run_may_read_them(driver: Driver) -> None:
    block, other = driver.insert(), driver.insert()
    reading = driver.open_flow()
    driver.catalog.blocks.collect([block.id])
    assert driver.catalog.blocks.purge() == []
    later = driver.open_insert("b")
    driver.catalog.blocks.collect([other.id])
    driver.catalog.runs.kill(reading.run.id)
    assert driver.catalog.blocks.purge() == [block.files[0].path]
    driver.commit(later)
    assert driver.catalog.blocks.purge() == [other.files[0].path]


def test_the_position_of_a_collected_block_still_exists(driver: Driver) -> None:
    """An older position would be mistaken for the content at this one."""
    block = driver.insert()
    driver.insert()
    driver.compact("a", 2)
    driver.catalog.blocks.collect([block.id])
    assert driver.catalog.channels.read_position("a", seq=1).content_identity == block.content_identity
    assert driver.catalog.channels.read_position("a", version=block.version).seq == 1
    assert [b.seq for b in driver.catalog.blocks.read_base_and_deltas("a", 1)] == [0]


def test_shared_files_are_purged_with_the_last_block_that_references_them(driver: Driver) -> None:
    first = driver.insert(kind=BlockKind.BASE)
    driver.insert()
    claim = driver.open_compaction()
    own_file = DataFile(f"{claim.directory}/rest.parquet", 1, 1)
    second = driver.catalog.runs.commit_compaction(claim, build_base(claim, "a", 2, [*first.files, own_file]))
    assert collect_and_purge(driver, [first.id]) == []
    assert driver.catalog.files.list_referenced() >= {first.files[0].path, own_file.path}
    assert collect_and_purge(driver, [second.id]) == sorted([first.files[0].path, own_file.path])


def collect_and_purge(driver: Driver, blocks: Iterable[int]) -> list[str]:
    driver.catalog.blocks.collect(blocks)
    return driver.catalog.blocks.purge()


def test_blocks_that_share_files_can_be_collected_together(driver: Driver) -> None:
    first = driver.insert(kind=BlockKind.BASE)
    driver.insert()
    second = driver.compact("a", 2, first.files)
    assert collect_and_purge(driver, [first.id, second.id]) == [first.files[0].path]


def test_only_filled_blocks_are_collected(driver: Driver) -> None:
    block = driver.insert()
    claim = driver.open_insert()
    reserved = claim.reservations[None, "a"].block
    with pytest.raises(Conflict, match=f"block {reserved} is reserved"):
        driver.catalog.blocks.collect([block.id, reserved])
    assert driver.catalog.blocks.read(block.id) == block
    driver.catalog.blocks.collect([block.id])
    with pytest.raises(Conflict, match=f"block {block.id} is collected"):
        driver.catalog.blocks.collect([block.id])
    with pytest.raises(NotFound, match="there is no block 999; the newest is"):
        driver.catalog.blocks.collect([999])


def test_collecting_nothing_changes_nothing(driver: Driver) -> None:
    before = driver.kinds_of_events()
    assert collect_and_purge(driver, []) == []
    assert driver.kinds_of_events() == before


def test_many_blocks_are_collected_in_batches(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.catalog.queries._BATCH_SIZE", 2)
    first = driver.insert(kind=BlockKind.BASE)
    blocks = [first, *(driver.insert() for _ in range(4))]
    shared = driver.compact("a", 5, first.files)
    purged = collect_and_purge(driver, (b.id for b in [*blocks, shared]))
    assert sorted(purged) == sorted(f.path for b in blocks for f in b.files)
    assert driver.catalog.files.list_referenced() == set()
    channel = driver.catalog.channels.read("a")
    assert (channel.blocks, channel.rows, channel.bytes) == (1, 0, 0)


def test_files_of_open_runs_are_in_active_directories(driver: Driver) -> None:
    claim = driver.open_insert()
    path = file_of(claim, claim.reservations[None, "a"]).path
    assert any(path.startswith(f"{d}/") for d in driver.catalog.files.list_active_directories())
    driver.commit(claim)
    assert driver.catalog.files.list_active_directories() == set()
    assert driver.catalog.files.list_referenced() == {path}


def test_the_bytes_of_a_shared_file_count_once(driver: Driver) -> None:
    inserted = driver.insert()
    assert driver.catalog.files.count_block_bytes() == inserted.bytes
    driver.compact("a", inserted.seq, files=inserted.files)
    assert driver.catalog.files.count_block_bytes() == inserted.bytes
    driver.catalog.blocks.collect([inserted.id])
    assert driver.catalog.files.count_block_bytes() == inserted.bytes
    (used,) = driver.catalog.files.count_workflow_bytes().values()
    assert used == inserted.bytes
