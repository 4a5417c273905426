"""Change feeds: which block comes after a position, and its rows for a reader outside the workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.errors import Collected
from tidemill.model.block import Block
from tidemill.model.change import Updates
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.engine import Engine
from tidemill.runtime.runs.views import ChannelViews

_AT_ONCE = 100  # sequence numbers that are looked at first


def find_next_block(catalog: CatalogReader, channel: str, at: int, head: int) -> Block:
    """The block that leads on from `at`, the smallest there is; where none does, the newest whole content after it."""
    for upto in sorted({min(at + _AT_ONCE, head), head}):
        next_ones = [b for b in catalog.list_deltas(channel, at, upto) if b.since == at]
        if next_ones:
            return min(next_ones, key=lambda b: b.seq)
    base = catalog.read_base_and_deltas(channel, head)[:1]
    if not base or base[0].seq <= at:
        raise Collected(
            f"what came into channel {channel} after {at} was collected; read its content, and follow it from {head} on"
        )
    return base[0]


@dataclass(slots=True)
class ChangeFeed:
    """Remembers how far it has read. It holds nothing back: what is collected before it is read, is not seen.

    What is new comes as the channel gives its changes: added rows, or rows with `_count` or `_deleted`.
    """

    catalog: CatalogReader
    engine: Engine
    updates: Mapping[str, Updates]
    channel: str
    at: int  # the number of the last slot that was read

    def read_new(self) -> Any:
        """What is new since it was last asked, as a frame of the engine's own, to be filtered at will."""
        head = self.catalog.read_channel(self.channel).head.seq
        view = ChannelViews(self.catalog, self.updates).build_change(self.channel, self.at, head)
        self.at = head
        return self.engine.read_frame(view)
