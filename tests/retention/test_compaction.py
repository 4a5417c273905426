"""What is due on a channel, and which files a compaction shares."""

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


def content(base: int, *deltas: int, updates: Updates = KEYED) -> Snapshot:
    first = block(0, BlockKind.BASE, 0, None, base, updates)
    return Snapshot("c", SCHEMA, len(deltas), first, tuple(_deltas(deltas, updates)))


def _deltas(rows: tuple[int, ...], updates: Updates) -> list[Block]:
    return [block(n + 1, BlockKind.DELTA, n + 1, n, count, updates) for n, count in enumerate(rows)]


def due(view: Snapshot, limits: CompactionLimits) -> Compaction | None:
    """What is due even if nobody reads."""
    return choose_compaction(view, MergeBalance(0, 0.0, 1.0), limits).compaction


def test_few_small_deltas_are_left_alone() -> None:
    assert due(content(100, 1, 1, 1), LIMITS) is None
    assert due(content(0), LIMITS) is None


def test_small_deltas_side_by_side_are_folded() -> None:
    wanted = due(content(100, 1, 2, 3, 4), LIMITS)
    assert isinstance(wanted, MinorCompaction)
    assert (wanted.before.seq, wanted.view.since, wanted.view.upto) == (0, 0, 4)
    assert [d.rows for d in wanted.view.deltas] == [1, 2, 3, 4]


def test_where_everything_is_small_a_base_costs_no_more_than_a_fold() -> None:
    assert isinstance(due(content(3, 1, 1, 1, 1), LIMITS), MajorCompaction)


def test_deltas_that_hold_more_than_the_base_make_another_although_nobody_reads() -> None:
    assert due(content(100, 100), LIMITS) is None
    assert isinstance(due(content(100, 101), LIMITS), MajorCompaction)
    assert due(content(0, 10), LIMITS) is None, "below the floor nobody notices"
    assert isinstance(due(content(0, 11), LIMITS), MajorCompaction)


def test_appended_rows_are_never_dear() -> None:
    assert due(content(10, 1000, updates=Append()), LIMITS) is None


def test_only_deltas_of_one_schema_are_folded() -> None:
    wider = Schema.from_ddl("k int, v int, w int")
    whole = content(100, 1, 1, 1, 1, 1, 1)
    mixed = [Block(d.id, "c", d.seq, d.kind, wider, d.since, KEYED, d.files) for d in whole.deltas[3:]]
    assert due(Snapshot("c", wider, 6, whole.base, (*whole.deltas[:3], *mixed)), LIMITS) is None


def test_cancelled_slots_do_not_let_deltas_pile_up() -> None:
    """Gaps make levels come in any order; there is a bound even so."""
    deltas, at = [], 0
    for n in range(LIMITS.fan**2 + 1):
        step = (1, 1, 1, 4)[n % 4] * (1 if n % 8 < 4 else 16)
        deltas.append(block(n + 1, BlockKind.DELTA, at + step, at, 1, Append()))
        at += step
    base = block(0, BlockKind.BASE, 0, None, 1000, Append())
    assert isinstance(due(Snapshot("c", SCHEMA, at, base, tuple(deltas)), LIMITS), MinorCompaction)


@pytest.mark.parametrize("updates", [Append(), KEYED], ids=["append", "keyed"])
@pytest.mark.parametrize("cursor", [None, 37], ids=["no cursor", "cursor"])
def test_a_long_life_stays_small(updates: Updates, cursor: int | None) -> None:
    """Refresh, compact and collect 600 times, in the mind: few deltas to read, few blocks kept, little rewritten."""
    blocks = [block(0, BlockKind.BASE, 0, None, 100_000, updates)]
    written, longest, most = 0, 0, 0
    needs = [ReadNeed(cursor)] if cursor is not None else []
    for seq in range(1, 601):
        blocks.append(block(seq, BlockKind.DELTA, seq, seq - 1, 3, updates))
        while (wanted := due(build_snapshot("c", SCHEMA, blocks, seq), LIMITS)) is not None:
            assert isinstance(wanted, MinorCompaction)
            rows = sum(d.rows for d in wanted.view.deltas)
            written += rows
            made = block(1000 * seq + len(blocks), BlockKind.DELTA, wanted.view.upto, wanted.view.since, rows, updates)
            blocks.append(made)
        gone = {b.id for b in find_collectable(blocks, seq, needs if cursor is not None and seq >= cursor else [])}
        blocks = [b for b in blocks if b.id not in gone]
        longest = max(longest, len(build_snapshot("c", SCHEMA, blocks, seq).deltas))
        most = max(most, len(blocks))
    levels = math.ceil(math.log(600, LIMITS.fan))
    assert longest <= (LIMITS.fan - 1) * levels
    assert most <= 3 * LIMITS.fan * levels
    assert written <= 3 * 600 * levels


def file(name: str, size: int) -> DataFile:
    return DataFile(name, 5, size)


def test_appended_large_files_are_shared_and_small_ones_written_together() -> None:
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


def test_one_small_file_alone_is_not_written_again() -> None:
    delta = Block(1, "c", 1, BlockKind.DELTA, SCHEMA, 0, Append(), (file("a", 400), file("b", 1)))
    view = DeltaChain("c", SCHEMA, Append(), 0, 1, (delta,))
    assert {f.path for f in find_sharable_files(view, LIMITS)} == {"a", "b"}


def test_only_files_of_the_base_hold_content_where_deltas_merge() -> None:
    base = Block(0, "c", 0, BlockKind.BASE, SCHEMA, files=(file("large", 100), file("small", 1)))
    delta = Block(1, "c", 1, BlockKind.DELTA, SCHEMA, 0, KEYED, (file("change", 400),))
    view = Snapshot("c", SCHEMA, 1, base, (delta,))
    assert must_merge(view)
    assert {f.path for f in find_sharable_files(view, LIMITS)} == {"large"}
    assert find_sharable_files(DeltaChain("c", SCHEMA, KEYED, 0, 1, (delta,)), LIMITS) == frozenset()


def test_files_of_an_older_schema_are_written_anew() -> None:
    older = Schema.from_ddl("k int")
    view = Snapshot("c", SCHEMA, 0, Block(0, "c", 0, BlockKind.BASE, older, files=(file("large", 100),)))
    assert find_sharable_files(view, LIMITS) == frozenset()


def test_whoever_writes_small_blocks_looks_for_compactions_now_and_then() -> None:
    limits = CompactionLimits(fan=4, floor=100)
    one = [block(n, BlockKind.DELTA, n, n - 1, 1, KEYED) for n in range(1, 9)]
    assert [b.seq for b in one if is_check_due(b, limits)] == [4, 8]
    assert is_check_due(block(1, BlockKind.DELTA, 1, 0, 25, KEYED), limits), "four like this one are dear"
    assert is_check_due(block(1, BlockKind.BASE, 1, None, 25, KEYED), limits), "what it replaces can be collected"
