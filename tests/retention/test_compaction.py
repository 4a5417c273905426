"""What is due on a channel, and which files a compaction shares."""

from __future__ import annotations

import math

import pytest

from tidemill.model.block import Block, File, Kind, Origin
from tidemill.model.change import Append, Updates, Upsert
from tidemill.model.schema import Schema
from tidemill.model.view import Chain, Snapshot, snapshot
from tidemill.retention.compaction import (
    Balance,
    Compaction,
    Fold,
    Limits,
    Rebase,
    file_count,
    judged,
    must_merge,
    sharable,
    without,
    worth_a_look,
)
from tidemill.retention.garbage_collection import Need, collectable

SCHEMA = Schema.parse("k int, v int")
KEYED = Upsert(("k",))
LIMITS = Limits(fan=4, floor=10, small_file=100)


def block(number: int, kind: Kind, seq: int, since: int | None, rows: int, updates: Updates, size: int = 1) -> Block:
    files = (File(f"{number}.parquet", rows, size),) if rows else ()
    origin = Origin.FIRST if seq == 0 else Origin.RUN
    return Block(number, "c", seq, kind, SCHEMA, since, updates, files, origin=origin)


def content(base: int, *deltas: int, updates: Updates = KEYED) -> Snapshot:
    first = block(0, Kind.BASE, 0, None, base, updates)
    return Snapshot("c", SCHEMA, len(deltas), first, tuple(_deltas(deltas, updates)))


def _deltas(rows: tuple[int, ...], updates: Updates) -> list[Block]:
    return [block(n + 1, Kind.DELTA, n + 1, n, count, updates) for n, count in enumerate(rows)]


def due(view: Snapshot, limits: Limits) -> Compaction | None:
    """What is due even if nobody reads."""
    return judged(view, Balance(0, 0.0, 1.0), limits).wanted


def test_few_small_deltas_are_left_alone() -> None:
    assert due(content(100, 1, 1, 1), LIMITS) is None
    assert due(content(0), LIMITS) is None


def test_small_deltas_side_by_side_are_folded() -> None:
    wanted = due(content(100, 1, 2, 3, 4), LIMITS)
    assert isinstance(wanted, Fold)
    assert (wanted.before.seq, wanted.view.since, wanted.view.upto) == (0, 0, 4)
    assert [d.rows for d in wanted.view.deltas] == [1, 2, 3, 4]


def test_where_everything_is_small_a_base_costs_no_more_than_a_fold() -> None:
    assert isinstance(due(content(3, 1, 1, 1, 1), LIMITS), Rebase)


def test_deltas_that_hold_more_than_the_base_make_another_although_nobody_reads() -> None:
    assert due(content(100, 100), LIMITS) is None
    assert isinstance(due(content(100, 101), LIMITS), Rebase)
    assert due(content(0, 10), LIMITS) is None, "below the floor nobody notices"
    assert isinstance(due(content(0, 11), LIMITS), Rebase)


def test_appended_rows_are_never_dear() -> None:
    assert due(content(10, 1000, updates=Append()), LIMITS) is None


def test_only_deltas_of_one_schema_are_folded() -> None:
    wider = Schema.parse("k int, v int, w int")
    whole = content(100, 1, 1, 1, 1, 1, 1)
    mixed = [Block(d.id, "c", d.seq, d.kind, wider, d.since, KEYED, d.files) for d in whole.deltas[3:]]
    assert due(Snapshot("c", wider, 6, whole.base, (*whole.deltas[:3], *mixed)), LIMITS) is None


def test_cancelled_slots_do_not_let_deltas_pile_up() -> None:
    """Gaps make levels come in any order; there is a bound even so."""
    deltas, at = [], 0
    for n in range(LIMITS.fan**2 + 1):
        step = (1, 1, 1, 4)[n % 4] * (1 if n % 8 < 4 else 16)
        deltas.append(block(n + 1, Kind.DELTA, at + step, at, 1, Append()))
        at += step
    base = block(0, Kind.BASE, 0, None, 1000, Append())
    assert isinstance(due(Snapshot("c", SCHEMA, at, base, tuple(deltas)), LIMITS), Fold)


@pytest.mark.parametrize("updates", [Append(), KEYED], ids=["append", "keyed"])
@pytest.mark.parametrize("cursor", [None, 37], ids=["no cursor", "cursor"])
def test_a_long_life_stays_small(updates: Updates, cursor: int | None) -> None:
    """Refresh, compact and collect 600 times, in the mind: few deltas to read, few blocks kept, little rewritten."""
    blocks = [block(0, Kind.BASE, 0, None, 100_000, updates)]
    written, longest, most = 0, 0, 0
    needs = [Need(cursor)] if cursor is not None else []
    for seq in range(1, 601):
        blocks.append(block(seq, Kind.DELTA, seq, seq - 1, 3, updates))
        while (wanted := due(snapshot("c", SCHEMA, blocks, seq), LIMITS)) is not None:
            assert isinstance(wanted, Fold)
            rows = sum(d.rows for d in wanted.view.deltas)
            written += rows
            made = block(1000 * seq + len(blocks), Kind.DELTA, wanted.view.upto, wanted.view.since, rows, updates)
            blocks.append(made)
        gone = {b.id for b in collectable(blocks, seq, needs if cursor is not None and seq >= cursor else [])}
        blocks = [b for b in blocks if b.id not in gone]
        longest = max(longest, len(snapshot("c", SCHEMA, blocks, seq).deltas))
        most = max(most, len(blocks))
    levels = math.ceil(math.log(600, LIMITS.fan))
    assert longest <= (LIMITS.fan - 1) * levels
    assert most <= 3 * LIMITS.fan * levels
    assert written <= 3 * 600 * levels


def file(name: str, size: int) -> File:
    return File(name, 5, size)


def test_appended_large_files_are_shared_and_small_ones_written_together() -> None:
    base = Block(0, "c", 0, Kind.BASE, SCHEMA, files=(file("large", 100), file("small", 99)))
    delta = Block(1, "c", 1, Kind.DELTA, SCHEMA, 0, Append(), (file("wide", 400), file("tiny", 1)))
    view = Snapshot("c", SCHEMA, 1, base, (delta,))
    shared = sharable(view, LIMITS)
    assert {f.path for f in shared} == {"large", "wide"}
    rest = without(view, shared)
    assert isinstance(rest, Snapshot)
    assert rest.base is not None
    assert [f.path for b in (rest.base, *rest.deltas) for f in b.files] == ["small", "tiny"]
    assert file_count(rest, LIMITS) == 1
    assert file_count(view, LIMITS) == 3


def test_one_small_file_alone_is_not_written_again() -> None:
    delta = Block(1, "c", 1, Kind.DELTA, SCHEMA, 0, Append(), (file("a", 400), file("b", 1)))
    view = Chain("c", SCHEMA, Append(), 0, 1, (delta,))
    assert {f.path for f in sharable(view, LIMITS)} == {"a", "b"}


def test_only_files_of_the_base_hold_content_where_deltas_merge() -> None:
    base = Block(0, "c", 0, Kind.BASE, SCHEMA, files=(file("large", 100), file("small", 1)))
    delta = Block(1, "c", 1, Kind.DELTA, SCHEMA, 0, KEYED, (file("change", 400),))
    view = Snapshot("c", SCHEMA, 1, base, (delta,))
    assert must_merge(view)
    assert {f.path for f in sharable(view, LIMITS)} == {"large"}
    assert sharable(Chain("c", SCHEMA, KEYED, 0, 1, (delta,)), LIMITS) == frozenset()


def test_files_of_an_older_schema_are_written_anew() -> None:
    older = Schema.parse("k int")
    view = Snapshot("c", SCHEMA, 0, Block(0, "c", 0, Kind.BASE, older, files=(file("large", 100),)))
    assert sharable(view, LIMITS) == frozenset()


def test_whoever_writes_small_blocks_looks_for_compactions_now_and_then() -> None:
    limits = Limits(fan=4, floor=100)
    one = [block(n, Kind.DELTA, n, n - 1, 1, KEYED) for n in range(1, 9)]
    assert [b.seq for b in one if worth_a_look(b, limits)] == [4, 8]
    assert worth_a_look(block(1, Kind.DELTA, 1, 0, 25, KEYED), limits), "four like this one are dear"
    assert worth_a_look(block(1, Kind.BASE, 1, None, 25, KEYED), limits), "what it replaces can be collected"
