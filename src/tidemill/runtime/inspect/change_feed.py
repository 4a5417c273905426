"""Change feeds: find the block after a position, and read its rows for a reader outside the workflow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.errors import GarbageCollected
from tidemill.model.block import Block
from tidemill.model.change import Updates
from tidemill.ports.catalog import BlockQueries, CatalogReader
from tidemill.ports.engine import Engine
from tidemill.runtime.runs.views import ChannelViews

_FIRST_RANGE = 100  # sequence numbers that are searched first


def find_next_block(blocks: BlockQueries, channel: str, position: int, head: int) -> Block:
    """Return the smallest block that continues from `position`; if there is none, the newest full content after it."""
    for upto in sorted({min(position + _FIRST_RANGE, head), head}):
        successors = [b for b in blocks.list_deltas(channel, position, upto) if b.since == position]
        if successors:
            return min(successors, key=lambda b: b.seq)
    base = blocks.read_base_and_deltas(channel, head)[:1]
    if not base or base[0].seq <= position:
        raise GarbageCollected(
            f"the changes of channel {channel} after {position} were garbage-collected; "
            f"read its content, and subscribe from {head} on"
        )
    return base[0]


@dataclass(slots=True)
class ChangeFeed:
    """A change feed that keeps its position.

    It retains nothing: blocks that are garbage-collected before it reads them are missed. New rows come in the
    channel's change format: added rows, or rows with `_count` or `_deleted`.
    """

    catalog: CatalogReader
    engine: Engine
    updates: Mapping[str, Updates]
    channel: str
    position: int  # sequence number of the last block that was read

    def read_new(self) -> Any:
        """Return the rows since the last call as a frame of the engine, which can be filtered."""
        head = self.catalog.channels.read(self.channel).head.seq
        view = ChannelViews(self.catalog, self.updates).build_change(self.channel, self.position, head)
        self.position = head
        return self.engine.read_frame(view)
