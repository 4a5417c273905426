"""The inventory of blocks: the blocks on each channel, and the positions of all consumers."""

from collections.abc import Iterable

from tidemill.planner.graph import BlockNode, BlockShape
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.vector import Vector, apply_delta, merge_later

ChannelBlocks = dict[BlockNode, BlockNode]
"""The blocks of a channel, in order of arrival; each maps to itself."""


class BlockInventory:
    """The blocks of a workflow, and the positions that derived channels and outputs have reached."""

    def __init__(self, index: GraphIndex) -> None:
        self.index = index
        self._blocks: dict[str, ChannelBlocks] = {c: {} for c in index.channels}
        self._consumed = {c: index.build_empty_vector(c) for c in index.writer}
        # Of each output's consumer after all deliveries, by which bounds and progress are checked.
        self.delivered = {c: index.build_empty_vector(c) for c in index.graph.outputs}
        self._points: dict[str, frozenset[Vector]] = {}

    def list_blocks(self, channel: str) -> Iterable[BlockNode]:
        return self._blocks[channel]

    def list_parts(self, channel: str) -> Iterable[BlockNode]:
        """List the blocks of a channel; where an inventory has chained deltas into one block, its parts."""
        return self.list_blocks(channel)

    def add_block(self, block: BlockNode) -> None:
        """Add a block that arrived on an input channel, or was written to a derived one."""
        shelf = self._blocks[block.channel]
        shelf.pop(block, None)
        shelf[block] = block
        consumed = self._consumed.get(block.channel, block.target)
        if consumed != block.target:
            self._consumed[block.channel] = merge_later(consumed, block.target)
            self._points.clear()

    def deliver_block(self, block: BlockNode) -> None:
        delivered, source, target = self.delivered[block.channel], block.source, block.target
        self.delivered[block.channel] = target if source is None else apply_delta(delivered, source, target)

    def find_resume_points(self, channel: str) -> frozenset[Vector]:
        """Return the positions from which derived channels and outputs will continue."""
        points = self._points.get(channel)
        if points is None:
            readers = (*self.index.children[channel], *self.index.routes[channel])
            parts = (self.index.slice_vector(self._consumed[r.channel], channel, r.offset) for r in readers)
            points = self._points[channel] = frozenset(parts)
        return points


def chain_blocks(first: BlockNode, second: BlockNode) -> BlockNode | None:
    """Return two deltas as one; None if they are not adjacent or cannot be read as one."""
    if first.source is None or first.target != second.source:
        return None
    shape = first.shape
    if shape is not second.shape:
        if BlockShape.WEAK in (shape, second.shape):
            return None
        shape = BlockShape.STRONG
    return BlockNode(first.channel, shape, first.source, second.target, first.size + second.size)
