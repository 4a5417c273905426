"""Which blocks nobody can need any more.

A block must stay while somebody may read through it: whoever reads the newest content, whoever goes on from a
cursor, and whoever asks for the content at a point that was promised to stay readable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.model.block import Block, Kind
from tidemill.model.view import chain, snapshot


@dataclass(frozen=True, slots=True)
class Need:
    """Somebody will read a channel from `since` on; with `snapshot`, also its whole content at `since`."""

    since: int
    snapshot: bool = False


def collectable(blocks: Iterable[Block], head: int, needs: Iterable[Need]) -> list[Block]:
    """The filled blocks of one channel that no need, nor a reader at the head, can ever touch again.

    Blocks above the head, and those that a run may still link to, are never among them.
    """
    known = sorted(blocks, key=lambda b: b.seq)
    kept = _snapshot(known, head)
    for need in needs:
        kept |= _change(known, need.since, head) if not need.snapshot else set()
        if need.snapshot or (need.since < head and not _linked(known, need.since, head)):
            kept |= _snapshot(known, need.since) | _after(known, need.since)
    return [b for b in known if b.id not in kept and b.seq <= head]


def _snapshot(blocks: list[Block], at: int) -> set[int]:
    if not blocks:
        return set()
    view = snapshot(blocks[0].channel, blocks[0].schema, blocks, at)
    return {b.id for b in (view.base, *view.deltas) if b is not None}


def _change(blocks: list[Block], since: int, upto: int) -> set[int]:
    return {b.id for b in blocks if b.kind is Kind.DELTA and since < b.seq <= upto}


def _after(blocks: list[Block], since: int) -> set[int]:
    return {b.id for b in blocks if b.seq > since}


def _linked(blocks: list[Block], since: int, upto: int) -> bool:
    first = blocks[0]
    return chain(first.channel, first.schema, first.updates, blocks, since, upto) is not None
