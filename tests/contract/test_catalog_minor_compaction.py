"""Minor compaction: a delta that replaces several is stored next to them, at the position of the last one."""

from __future__ import annotations

import pytest
from tests.catalog.driver import SCHEMA, Driver, build_base, build_minor_block

from tidemill.errors import Conflict
from tidemill.model.block import BlockKind, BlockOrigin, BlockState, DataFile
from tidemill.model.provenance import apply_delta
from tidemill.model.view import DeltaChain, build_snapshot


def test_a_minor_compaction_has_the_position_of_its_last_delta(driver: Driver) -> None:
    first, _, third = (driver.insert() for _ in range(3))
    claim = driver.open_compaction()
    compacted = driver.catalog.runs.commit_compaction(
        claim, build_minor_block(claim, "a", 1, 3, first.channel_provenance), log="done"
    )
    assert (compacted.seq, compacted.since, compacted.kind, compacted.origin) == (
        3,
        1,
        BlockKind.DELTA,
        BlockOrigin.COMPACTION,
    )
    assert (compacted.channel_provenance, compacted.content_identity, compacted.version) == (
        third.channel_provenance,
        third.content_identity,
        third.version,
    )
    assert apply_delta(first.channel_provenance, compacted.source, compacted.target) == third.channel_provenance
    assert driver.head() == 3
    assert driver.catalog.channels.read_position("a", seq=3).content_identity == third.content_identity


def test_readers_use_the_compacted_delta_or_the_original_deltas(driver: Driver) -> None:
    for _ in range(4):
        driver.insert()
    driver.compact_minor("a", 0, 3)
    blocks = driver.catalog.blocks.read_base_and_deltas("a", 4)
    assert [(b.since, b.seq) for b in build_snapshot("a", SCHEMA, blocks, 4).deltas] == [(0, 3), (3, 4)]
    assert [(b.since, b.seq) for b in build_snapshot("a", SCHEMA, blocks, 2).deltas] == [(0, 1), (1, 2)]


def test_a_position_has_one_delta_per_start_and_one_base(driver: Driver) -> None:
    for _ in range(3):
        driver.insert()
    driver.compact_minor("a", 0, 3)
    driver.compact_minor("a", 1, 3)
    driver.compact("a", 3)
    with pytest.raises(Conflict, match="already has a delta since 1 at 3"):
        driver.compact_minor("a", 1, 3)
    with pytest.raises(Conflict, match="already has a delta since 2 at 3"):
        driver.compact_minor("a", 2, 3)
    with pytest.raises(Conflict, match="already has a base at 3"):
        driver.compact("a", 3)


def test_a_base_can_be_built_from_a_compacted_delta(driver: Driver) -> None:
    first, second = driver.insert(), driver.insert()
    driver.compact_minor("a", 0, 2)
    driver.catalog.blocks.collect([first.id, second.id])
    assert driver.catalog.blocks.purge() == sorted(f.path for b in (first, second) for f in b.files)
    compacted = driver.compact("a", 2)
    assert (compacted.content_identity, compacted.channel_provenance) == (
        second.content_identity,
        second.channel_provenance,
    )


def test_a_compacted_delta_can_share_files(driver: Driver) -> None:
    first, second = driver.insert(), driver.insert()
    claim = driver.open_compaction()
    own_file = DataFile(f"{claim.directory}/rest.parquet", 2, 10)
    driver.catalog.runs.commit_compaction(claim, build_minor_block(claim, "a", 0, 2, files=[*first.files, own_file]))
    driver.catalog.blocks.collect([first.id, second.id])
    assert driver.catalog.blocks.purge() == [second.files[0].path]
    assert driver.catalog.files.list_referenced() == {first.files[0].path, own_file.path}


def test_a_compacted_delta_is_not_new_to_later_readers(driver: Driver) -> None:
    driver.insert()
    driver.insert()
    driver.run_flow()
    driver.compact_minor("a", 0, 2)
    third = driver.insert()
    assert third.since == 2
    assert driver.open_flow().spans["copying", "a"].since.seq == 2


def test_positions_of_active_runs_are_listed(driver: Driver) -> None:
    assert driver.catalog.channels.list_active_positions("a") == set()
    driver.insert()
    early = driver.open_flow()
    driver.insert()
    late = driver.open_compaction()
    assert driver.catalog.channels.list_active_positions("a") == {1, 2}
    driver.commit(early)
    driver.catalog.runs.commit_compaction(late, build_base(late, "a", 2))
    assert driver.catalog.channels.list_active_positions("a") == set()


def test_visible_blocks_do_not_include_compacted_ones(driver: Driver) -> None:
    first = driver.insert()
    driver.catalog.runs.kill(driver.open_insert().run.id)
    driver.insert()
    driver.compact_minor("a", 0, 3)
    driver.compact("a", 3)
    driver.catalog.blocks.collect([first.id])
    assert [(b.seq, b.state) for b in driver.catalog.blocks.list_visible("a", 0, 3)] == [
        (1, BlockState.COLLECTED),
        (3, BlockState.FILLED),
    ]


def test_filled_blocks_are_listed_with_their_positions(driver: Driver) -> None:
    driver.insert()
    driver.insert()
    compacted = driver.compact_minor("a", 0, 2)
    blocks = driver.catalog.blocks.list_filled("a")
    assert [(b.seq, b.since, b.origin) for b in blocks] == [
        (0, None, BlockOrigin.FIRST),
        (1, 0, BlockOrigin.INSERT),
        (2, 1, BlockOrigin.INSERT),
        (2, 0, BlockOrigin.COMPACTION),
    ]
    assert (blocks[-1].id, blocks[-1].updates, blocks[-1].schema) == (compacted.id, compacted.updates, compacted.schema)


def test_overlapping_compacted_deltas_do_not_hide_a_chain(driver: Driver) -> None:
    """Overlapping compacted deltas must not hide the chain of the smaller deltas."""
    for _ in range(4):
        driver.insert()
    driver.compact_minor("a", 0, 2)
    driver.compact_minor("a", 1, 4)
    collected = [b.id for b in driver.catalog.blocks.list_filled("a") if (b.since, b.seq) == (0, 1)]
    driver.catalog.blocks.collect(collected)
    blocks = driver.catalog.blocks.read_base_and_deltas("a", 4)
    view = build_snapshot("a", SCHEMA, blocks, 4)
    assert [(b.since, b.seq) for b in view.deltas] == [(0, 2), (2, 3), (3, 4)]
    assert not isinstance(view, DeltaChain)
