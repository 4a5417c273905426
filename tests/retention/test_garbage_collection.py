"""What may be collected: whatever nobody can read through any more."""

from __future__ import annotations

from tests.retention.test_compaction import KEYED, block

from tidemill.model.block import Block, BlockKind
from tidemill.retention.garbage_collection import ReadNeed, find_collectable


def base(number: int, seq: int) -> Block:
    return block(number, BlockKind.BASE, seq, None, 1, KEYED)


def delta(number: int, since: int, seq: int) -> Block:
    return block(number, BlockKind.DELTA, seq, since, 1, KEYED)


HISTORY = [base(0, 0), *(delta(n, n - 1, n) for n in range(1, 7)), delta(10, 0, 4), base(11, 5)]
"""Six deltas, of which the first four were folded, and a base at 5."""


def left(head: int, *needs: ReadNeed) -> list[int]:
    gone = {b.id for b in find_collectable(HISTORY, head, needs)}
    return [b.id for b in HISTORY if b.id not in gone]


def test_a_reader_at_the_head_needs_the_newest_base_and_what_follows() -> None:
    assert left(6) == [0, 6, 11]


def test_who_begins_begins_at_the_empty_base() -> None:
    assert 0 in left(6)


def test_what_is_above_the_head_is_not_judged() -> None:
    assert left(4) == [0, 5, 6, 10, 11]


def test_a_cursor_inside_a_fold_keeps_the_small_deltas_that_it_needs() -> None:
    """The content at 2, should a whole new base come next, and the way on from there."""
    assert left(6, ReadNeed(2)) == [0, 1, 2, 3, 4, 5, 6, 11]


def test_a_cursor_at_the_end_of_a_fold_needs_the_fold_alone() -> None:
    assert left(6, ReadNeed(4)) == [0, 5, 6, 10, 11]


def test_a_cursor_that_has_moved_on_frees_everything() -> None:
    assert left(6, ReadNeed(6)) == [0, 6, 11]


def test_every_content_from_a_point_on_can_be_kept() -> None:
    assert left(6, ReadNeed(2, onwards=True)) == [0, *range(1, 7), 10, 11]


def test_a_point_that_was_collected_before_keeps_nothing_more() -> None:
    rest = [b for b in HISTORY if b.id in left(6)]
    assert find_collectable(rest, 6, [ReadNeed(2)]) == []


def test_a_channel_without_blocks() -> None:
    assert find_collectable([], 0, [ReadNeed(0)]) == []
