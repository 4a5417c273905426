"""Which blocks nobody can need any more.

A block must stay while somebody may read through it: whoever reads the newest content, whoever goes on from a
cursor, and whoever asks for the content at a point that was promised to stay readable. So must what a pin holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from tidemill.errors import Collected
from tidemill.model.block import Block, BlockOrigin
from tidemill.model.view import build_chain, build_snapshot, list_blocks


@dataclass(frozen=True, slots=True)
class ReadNeed:
    """Somebody will read the content at `since`, and perhaps what changed after it.

    Both, since a chain of deltas can be broken by a whole new base at any time: then the change is the
    difference from the content. With `onwards` every later content must stay readable as well.
    """

    since: int
    onwards: bool = False


def find_collectable(
    blocks: Iterable[Block], head: int, needs: Iterable[ReadNeed], held: Set[int] = frozenset()
) -> list[Block]:
    """The filled blocks of one channel that no pin holds and no need, nor a reader at the head, can ever touch again.

    Blocks above the head are never among them. Nor is the empty first base: whoever begins to read a
    channel begins there, and it takes no space.
    """
    known = sorted((b for b in blocks if b.seq <= head), key=lambda b: b.seq)
    kept = held | _find_content_blocks(known, head) | {b.id for b in known if b.origin is BlockOrigin.FIRST}
    for need in needs:
        kept |= _find_content_blocks(known, need.since) | _find_change_blocks(known, need.since, head)
        kept |= {b.id for b in known if need.onwards and b.seq > need.since}
    return [b for b in known if b.id not in kept]


def _find_content_blocks(blocks: Sequence[Block], at: int) -> set[int]:
    """What the content at a point is read from; nothing if it cannot be read any longer."""
    if not blocks:
        return set()
    try:
        return {b.id for b in list_blocks(build_snapshot(blocks[0].channel, blocks[0].schema, blocks, at))}
    except Collected:
        return set()


def _find_change_blocks(blocks: Sequence[Block], since: int, upto: int) -> set[int]:
    """The deltas that lead from a point to the head; nothing if the change will be a difference of contents."""
    if not blocks:
        return set()
    first = blocks[0]
    deltas = build_chain(first.channel, first.schema, first.updates, blocks, since, upto)
    return {b.id for b in deltas.deltas} if deltas is not None else set()
