"""Deltas made of several: they stand beside those they were made of, at the same place."""

from __future__ import annotations

import pytest
from tests.catalog.driver import SCHEMA, Driver, base, fold

from tidemill.errors import Conflict
from tidemill.model.block import BlockKind, BlockOrigin, BlockState, DataFile
from tidemill.model.provenance import apply_delta
from tidemill.model.view import DeltaChain, build_snapshot


def test_a_fold_stands_at_the_place_of_its_last_delta(driver: Driver) -> None:
    first, _, third = (driver.insert() for _ in range(3))
    claim = driver.open_compaction()
    made = driver.catalog.commit_compaction(claim, fold(claim, "a", 1, 3, first.channel_provenance), log="done")
    assert (made.seq, made.since, made.kind, made.origin) == (3, 1, BlockKind.DELTA, BlockOrigin.COMPACTION)
    assert (made.channel_provenance, made.content_identity, made.version) == (
        third.channel_provenance,
        third.content_identity,
        third.version,
    )
    assert apply_delta(first.channel_provenance, made.source, made.target) == third.channel_provenance
    assert driver.head() == 3
    assert driver.catalog.read_position("a", seq=3).content_identity == third.content_identity


def test_readers_take_the_fold_or_the_deltas_inside(driver: Driver) -> None:
    for _ in range(4):
        driver.insert()
    driver.fold("a", 0, 3)
    blocks = driver.catalog.read_base_and_deltas("a", 4)
    assert [(b.since, b.seq) for b in build_snapshot("a", SCHEMA, blocks, 4).deltas] == [(0, 3), (3, 4)]
    assert [(b.since, b.seq) for b in build_snapshot("a", SCHEMA, blocks, 2).deltas] == [(0, 1), (1, 2)]


def test_a_place_has_one_fold_of_a_length_and_one_base(driver: Driver) -> None:
    for _ in range(3):
        driver.insert()
    driver.fold("a", 0, 3)
    driver.fold("a", 1, 3)
    driver.compact("a", 3)
    with pytest.raises(Conflict, match="already has a delta since 1 at 3"):
        driver.fold("a", 1, 3)
    with pytest.raises(Conflict, match="already has a delta since 2 at 3"):
        driver.fold("a", 2, 3)
    with pytest.raises(Conflict, match="already has a base at 3"):
        driver.compact("a", 3)


def test_a_base_can_stand_where_only_a_fold_is_left(driver: Driver) -> None:
    first, second = driver.insert(), driver.insert()
    driver.fold("a", 0, 2)
    driver.catalog.collect_blocks([first.id, second.id])
    assert driver.catalog.purge_blocks() == sorted(f.path for b in (first, second) for f in b.files)
    made = driver.compact("a", 2)
    assert (made.content_identity, made.channel_provenance) == (second.content_identity, second.channel_provenance)


def test_a_fold_can_share_files(driver: Driver) -> None:
    first, second = driver.insert(), driver.insert()
    claim = driver.open_compaction()
    own = DataFile(f"{claim.directory}/rest.parquet", 2, 10)
    driver.catalog.commit_compaction(claim, fold(claim, "a", 0, 2, files=[*first.files, own]))
    driver.catalog.collect_blocks([first.id, second.id])
    assert driver.catalog.purge_blocks() == [second.files[0].path]
    assert driver.catalog.list_referenced_files() == {first.files[0].path, own.path}


def test_a_fold_is_no_news_to_who_comes_after(driver: Driver) -> None:
    driver.insert()
    driver.insert()
    driver.run_flow()
    driver.fold("a", 0, 2)
    third = driver.insert()
    assert third.since == 2
    assert driver.open_flow().spans["copying", "a"].since.seq == 2


def test_where_runs_under_way_read(driver: Driver) -> None:
    assert driver.catalog.list_active_positions("a") == set()
    driver.insert()
    early = driver.open_flow()
    driver.insert()
    late = driver.open_compaction()
    assert driver.catalog.list_active_positions("a") == {1, 2}
    driver.commit(early)
    driver.catalog.commit_compaction(late, base(late, "a", 2))
    assert driver.catalog.list_active_positions("a") == set()


def test_slots_are_what_was_written_and_not_what_was_compacted(driver: Driver) -> None:
    first = driver.insert()
    driver.catalog.kill_run(driver.open_insert().run.id)
    driver.insert()
    driver.fold("a", 0, 3)
    driver.compact("a", 3)
    driver.catalog.collect_blocks([first.id])
    assert [(b.seq, b.state) for b in driver.catalog.list_visible_blocks("a", 0, 3)] == [
        (1, BlockState.COLLECTED),
        (3, BlockState.FILLED),
    ]


def test_outlines_say_where_blocks_stand(driver: Driver) -> None:
    driver.insert()
    driver.insert()
    made = driver.fold("a", 0, 2)
    outlines = driver.catalog.list_filled_blocks("a")
    assert [(b.seq, b.since, b.origin) for b in outlines] == [
        (0, None, BlockOrigin.FIRST),
        (1, 0, BlockOrigin.INSERT),
        (2, 1, BlockOrigin.INSERT),
        (2, 0, BlockOrigin.COMPACTION),
    ]
    assert (outlines[-1].id, outlines[-1].updates, outlines[-1].schema) == (made.id, made.updates, made.schema)


def test_a_chain_needs_no_more_deltas_than_there_are_ways(driver: Driver) -> None:
    """Folds that overlap must never hide the way that the smaller deltas make."""
    for _ in range(4):
        driver.insert()
    driver.fold("a", 0, 2)
    driver.fold("a", 1, 4)
    gone = [b.id for b in driver.catalog.list_filled_blocks("a") if (b.since, b.seq) == (0, 1)]
    driver.catalog.collect_blocks(gone)
    blocks = driver.catalog.read_base_and_deltas("a", 4)
    view = build_snapshot("a", SCHEMA, blocks, 4)
    assert [(b.since, b.seq) for b in view.deltas] == [(0, 2), (2, 3), (3, 4)]
    assert not isinstance(view, DeltaChain)
