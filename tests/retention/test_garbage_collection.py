"""Garbage collection: blocks that no reader needs any more."""

from __future__ import annotations

from tests.retention.test_compaction import KEYED, block

from tidemill.model.block import Block, BlockKind
from tidemill.retention.garbage_collection import ReadNeed, find_collectable


def base(number: int, seq: int) -> Block:
    return block(number, BlockKind.BASE, seq, None, 1, KEYED)


def delta(number: int, since: int, seq: int) -> Block:
    return block(number, BlockKind.DELTA, seq, since, 1, KEYED)


HISTORY = [base(0, 0), *(delta(n, n - 1, n) for n in range(1, 7)), delta(10, 0, 4), base(11, 5)]
"""Six deltas, of which the first four were merged by a minor compaction, and a base at 5."""


def list_remaining(head: int, *needs: ReadNeed) -> list[int]:
    collected = {b.id for b in find_collectable(HISTORY, head, needs)}
    return [b.id for b in HISTORY if b.id not in collected]


def test_a_reader_at_the_head_needs_the_newest_base_and_later_deltas() -> None:
    assert list_remaining(6) == [0, 6, 11]


def test_the_empty_base_is_retained_for_new_readers() -> None:
    assert 0 in list_remaining(6)


def test_blocks_above_the_head_are_retained() -> None:
    assert list_remaining(4) == [0, 5, 6, 10, 11]


def test_a_cursor_inside_a_minor_compaction_retains_its_small_deltas() -> None:
    """The content at 2, in case a new base arrives next, and the deltas after it."""
    assert list_remaining(6, ReadNeed(2)) == [0, 1, 2, 3, 4, 5, 6, 11]


def test_a_cursor_at_the_end_of_a_minor_compaction_needs_only_the_merged_delta() -> None:
    assert list_remaining(6, ReadNeed(4)) == [0, 5, 6, 10, 11]


def test_a_cursor_at_the_head_retains_nothing_else() -> None:
    assert list_remaining(6, ReadNeed(6)) == [0, 6, 11]


def test_every_content_from_a_sequence_on_can_be_retained() -> None:
    assert list_remaining(6, ReadNeed(2, onwards=True)) == [0, *range(1, 7), 10, 11]


def test_a_sequence_that_was_collected_retains_nothing() -> None:
    rest = [b for b in HISTORY if b.id in list_remaining(6)]
    assert find_collectable(rest, 6, [ReadNeed(2)]) == []


def test_a_channel_without_blocks_has_nothing_to_collect() -> None:
    assert find_collectable([], 0, [ReadNeed(0)]) == []
