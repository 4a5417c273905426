"""Finds the blocks that no reader can need any more.

A block is retained while a reader may need it: a reader of the newest content, a task that continues from a cursor, or
a reader of an earlier content that must stay readable. So are blocks that a pin retains.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from tidemill.errors import GarbageCollected
from tidemill.model.block import Block, BlockOrigin
from tidemill.model.view import build_chain, build_snapshot, list_blocks


@dataclass(frozen=True, slots=True)
class ReadNeed:
    """A reader will read the content at `since`, and perhaps the change after it.

    Both, because a new base can break a chain of deltas at any time: then the change is the difference from the
    content. With `onwards` every later content must stay readable as well.
    """

    since: int
    onwards: bool = False


def find_collectable(
    blocks: Iterable[Block], head: int, needs: Iterable[ReadNeed], pinned: Set[int] = frozenset()
) -> list[Block]:
    """Return the filled blocks of one channel that no pin, no need and no reader at the head can ever touch again.

    Blocks above the head are never among them. Nor is the empty first base: new readers of a channel begin there, and
    it takes no space.
    """
    visible = sorted((b for b in blocks if b.seq <= head), key=lambda b: b.seq)
    retained = pinned | _find_content_blocks(visible, head) | {b.id for b in visible if b.origin is BlockOrigin.FIRST}
    for need in needs:
        retained |= _find_content_blocks(visible, need.since) | _find_change_blocks(visible, need.since, head)
        retained |= {b.id for b in visible if need.onwards and b.seq > need.since}
    return [b for b in visible if b.id not in retained]


def _find_content_blocks(blocks: Sequence[Block], position: int) -> set[int]:
    """Return the blocks from which the content at a position is read; none if it cannot be read any longer."""
    if not blocks:
        return set()
    try:
        return {b.id for b in list_blocks(build_snapshot(blocks[0].channel, blocks[0].schema, blocks, position))}
    except GarbageCollected:
        return set()


def _find_change_blocks(blocks: Sequence[Block], since: int, upto: int) -> set[int]:
    """Return the deltas from a position to the head; none if the change will be a difference of contents."""
    if not blocks:
        return set()
    first = blocks[0]
    deltas = build_chain(first.channel, first.schema, first.updates, blocks, since, upto)
    return {b.id for b in deltas.deltas} if deltas is not None else set()
