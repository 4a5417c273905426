"""Following a channel: which block comes after a position."""

from __future__ import annotations

from tidemill.errors import Collected
from tidemill.model.block import Block
from tidemill.ports.catalog import CatalogReader

_AT_ONCE = 100  # sequence numbers that are looked at first


def following(catalog: CatalogReader, channel: str, at: int, head: int) -> Block:
    """The block that leads on from `at`, the smallest there is; where none does, the newest whole content after it."""
    for upto in sorted({min(at + _AT_ONCE, head), head}):
        next_ones = [b for b in catalog.deltas(channel, at, upto) if b.since == at]
        if next_ones:
            return min(next_ones, key=lambda b: b.seq)
    base = catalog.base_and_after(channel, head)[:1]
    if not base or base[0].seq <= at:
        raise Collected(
            f"what came into channel {channel} after {at} was collected; read its content, and follow it from {head} on"
        )
    return base[0]
