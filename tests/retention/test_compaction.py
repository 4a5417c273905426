"""Compactions that are due on a channel, and the files that they share."""

from __future__ import annotations

import math

import pytest

from tidemill.model.block import Block, BlockKind, BlockOrigin, DataFile
from tidemill.model.change import Append, Updates, Upsert
from tidemill.model.schema import Schema
from tidemill.model.view import DeltaChain, Snapshot, build_snapshot
from tidemill.retention.compaction import (
    Compaction,
    CompactionLimits,
    MajorCompaction,
    MergeBalance,
    MinorCompaction,
    choose_compaction,
    compute_file_count,
    exclude_files,
    find_sharable_files,
    is_check_due,
    must_merge,
)
from tidemill.retention.garbage_collection import ReadNeed, find_collectable

SCHEMA = Schema.from_ddl("k int, v int")
KEYED = Upsert(("k",))
LIMITS = CompactionLimits(fan=4, floor=10, small_file=100)


def block(
    number: int, kind: BlockKind, seq: int, since: int | None, rows: int, updates: Updates, size: int = 1
) -> Block:
    files = (DataFile(f"{number}.parquet", rows, size),) if rows else ()
    origin = BlockOrigin.FIRST if seq == 0 else BlockOrigin.RUN
    return Block(number, "c", seq, kind, SCHEMA, since, updates, files, origin=origin)


def build_content(base: int, *deltas: int, updates: Updates = KEYED) -> Snapshot:
    first = block(0, BlockKind.BASE, 0, None, base, updates)
    return Snapshot("c", SCHEMA, len(deltas), first, tuple(_build_deltas(deltas, updates)))


def _build_deltas(rows: tuple[int, ...], updates: Updates) -> list[Block]:
    return [block(n + 1, BlockKind.DELTA, n + 1, n, count, updates) for n, count in enumerate(rows)]


def choose(view: Snapshot, limits: CompactionLimits) -> Compaction | None:
    """The compaction that is due without any reads."""
    return choose_compaction(view, MergeBalance(0, 0.0, 1.0), limits).compaction


def test_few_small_deltas_are_not_compacted() -> None:
    assert choose(build_content(100, 1, 1, 1), LIMITS) is None
    assert choose(build_content(0), LIMITS) is None


def test_consecutive_small_deltas_are_merged_by_a_minor_compaction() -> None:
    compaction = choose(build_content(100, 1, 2, 3, 4), LIMITS)
    assert isinstance(compaction, MinorCompaction)
    assert (compaction.before.seq, compaction.view.since, compaction.view.upto) == (0, 0, 4)
    assert [d.rows for d in compaction.view.deltas] == [1, 2, 3, 4]


def test_a_small_channel_gets_a_major_compaction() -> None:
    assert isinstance(choose(build_content(3, 1, 1, 1, 1), LIMITS), MajorCompaction)


def test_deltas_larger_than_the_base_cause_a_major_compaction_without_reads() -> None:
    assert choose(build_content(100, 100), LIMITS) is None
    assert isinstance(choose(build_content(100, 101), LIMITS), MajorCompaction)
    assert choose(build_content(0, 10), LIMITS) is None, "below the floor the cost is negligible"
    assert isinstance(choose(build_content(0, 11), LIMITS), MajorCompaction)


def test_appended_rows_cause_no_major_compaction() -> None:
    assert choose(build_content(10, 1000, updates=Append()), LIMITS) is None


def test_only_deltas_of_one_schema_are_merged() -> None:
    wider = Schema.from_ddl("k int, v int, w int")
    view = build_content(100, 1, 1, 1, 1, 1, 1)
    mixed = [Block(d.id, "c", d.seq, d.kind, wider, d.since, KEYED, d.files) for d in view.deltas[3:]]
    assert choose(Snapshot("c", wider, 6, view.base, (*view.deltas[:3], *mixed)), LIMITS) is None


def test_cancelled_reservations_do_not_let_deltas_accumulate() -> None:
    """Gaps cause levels in any order; the number of deltas is still bounded."""
    deltas, seq = [], 0
    for n in range(LIMITS.fan**2 + 1):
        step = (1, 1, 1, 4)[n % 4] * (1 if n % 8 < 4 else 16)
        deltas.append(block(n + 1, BlockKind.DELTA, seq + step, seq, 1, Append()))
        seq += step
    base = block(0, BlockKind.BASE, 0, None, 1000, Append())
    assert isinstance(choose(Snapshot("c", SCHEMA, seq, base, tuple(deltas)), LIMITS), MinorCompaction)


@pytest.mark.parametrize("updates", [Append(), KEYED], ids=["append", "keyed"])
@pytest.mark.parametrize("cursor", [None, 37], ids=["no cursor", "cursor"])
def test_many_refreshes_leave_few_deltas_and_blocks(updates: Updates, cursor: int | None) -> None:
    """Simulate 600 refreshes, compactions and collections: few deltas to read, few blocks stored, little rewritten."""
    blocks = [block(0, BlockKind.BASE, 0, None, 100_000, updates)]
    written, longest, most = 0, 0, 0
    needs = [ReadNeed(cursor)] if cursor is not None else []
    for seq in range(1, 601):
        blocks.append(block(seq, BlockKind.DELTA, seq, seq - 1, 3, updates))
        while (compaction := choose(build_snapshot("c", SCHEMA, blocks, seq), LIMITS)) is not None:
            assert isinstance(compaction, MinorCompaction)
            rows = sum(d.rows for d in compaction.view.deltas)
            written += rows
            merged = block(
                1000 * seq + len(blocks), BlockKind.DELTA, compaction.view.upto, compaction.view.since, rows, updates
            )
            blocks.append(merged)
        collected = {b.id for b in find_collectable(blocks, seq, needs if cursor is not None and seq >= cursor else [])}
        blocks = [b for b in blocks if b.id not in collected]
        longest = max(longest, len(build_snapshot("c", SCHEMA, blocks, seq).deltas))
        most = max(most, len(blocks))
    levels = math.ceil(math.log(600, LIMITS.fan))
    assert longest <= (LIMITS.fan - 1) * levels
    assert most <= 3 * LIMITS.fan * levels
    assert written <= 3 * 600 * levels


def file(name: str, size: int) -> DataFile:
    return DataFile(name, 5, size)


def test_large_appended_files_are_shared_and_small_ones_merged() -> None:
    base = Block(0, "c", 0, BlockKind.BASE, SCHEMA, files=(file("large", 100), file("small", 99)))
    delta = Block(1, "c", 1, BlockKind.DELTA, SCHEMA, 0, Append(), (file("wide", 400), file("tiny", 1)))
    view = Snapshot("c", SCHEMA, 1, base, (delta,))
    shared = find_sharable_files(view, LIMITS)
    assert {f.path for f in shared} == {"large", "wide"}
    rest = exclude_files(view, shared)
    assert isinstance(rest, Snapshot)
    assert rest.base is not None
    assert [f.path for b in (rest.base, *rest.deltas) for f in b.files] == ["small", "tiny"]
    assert compute_file_count(rest, LIMITS) == 1
    assert compute_file_count(view, LIMITS) == 3


def test_a_single_small_file_is_not_rewritten() -> None:
    delta = Block(1, "c", 1, BlockKind.DELTA, SCHEMA, 0, Append(), (file("a", 400), file("b", 1)))
    view = DeltaChain("c", SCHEMA, Append(), 0, 1, (delta,))
    assert {f.path for f in find_sharable_files(view, LIMITS)} == {"a", "b"}


def test_with_keyed_deltas_only_files_of_the_base_are_shared() -> None:
    base = Block(0, "c", 0, BlockKind.BASE, SCHEMA, files=(file("large", 100), file("small", 1)))
    delta = Block(1, "c", 1, BlockKind.DELTA, SCHEMA, 0, KEYED, (file("change", 400),))
    view = Snapshot("c", SCHEMA, 1, base, (delta,))
    assert must_merge(view)
    assert {f.path for f in find_sharable_files(view, LIMITS)} == {"large"}
    assert find_sharable_files(DeltaChain("c", SCHEMA, KEYED, 0, 1, (delta,)), LIMITS) == frozenset()


def test_files_of_an_older_schema_are_rewritten() -> None:
    older = Schema.from_ddl("k int")
    view = Snapshot("c", SCHEMA, 0, Block(0, "c", 0, BlockKind.BASE, older, files=(file("large", 100),)))
    assert find_sharable_files(view, LIMITS) == frozenset()


def test_small_blocks_trigger_a_compaction_check_now_and_then() -> None:
    limits = CompactionLimits(fan=4, floor=100)
    blocks = [block(n, BlockKind.DELTA, n, n - 1, 1, KEYED) for n in range(1, 9)]
    assert [b.seq for b in blocks if is_check_due(b, limits)] == [4, 8]
    assert is_check_due(block(1, BlockKind.DELTA, 1, 0, 25, KEYED), limits), (
        "four blocks of this size are expensive to merge"
    )
    assert is_check_due(block(1, BlockKind.BASE, 1, None, 25, KEYED), limits), "the replaced blocks can be collected"
