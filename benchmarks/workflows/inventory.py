"""An inventory of blocks that is kept from call to call, and stays small.

Deltas that no consumer distinguishes are chained into one; blocks before the last base that all outputs have passed are
dropped, and so is every base that is neither among the newest nor the last before a resume point, and delivered deltas
of an output from which nothing is derived. So a call costs the same however many blocks have arrived.

The planner does not need the parts of a chain: an executor would find the deltas between two positions in the catalog.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import islice
from operator import ge

from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import BlockInventory, ChannelBlocks, chain_blocks
from tidemill.planner.bounds import get_declared_limit
from tidemill.planner.graph import BlockNode, BlockShape
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.vector import NEVER, Ends, PlanningClock, Vector

MAX_CHAIN_PARTS = 64
"""Maximum number of parts remembered of a chain, in case no plan uses it as a whole."""


class LastingInventory(BlockInventory):
    """An inventory in which deltas are chained and old blocks are dropped; each can be disabled."""

    def __init__(self, index: GraphIndex, *, chains: bool = True, drops: bool = True) -> None:
        super().__init__(index)
        self._chains, self._drops = chains, drops
        self._parts: dict[BlockNode, deque[BlockNode]] = {}
        self._pinned: dict[str, Counter[Vector]] = {c: Counter() for c in index.channels}

    def list_parts(self, channel: str) -> Iterable[BlockNode]:
        """List the blocks of a channel, chains as their remembered parts."""
        return [part for block in self._blocks[channel] for part in self._parts.get(block, (block,))]

    def add_block(self, block: BlockNode) -> None:
        super().add_block(block)
        if self._chains and block.source is not None:
            self._chain_deltas(block.channel, (block.source, block.target))

    def deliver_block(self, block: BlockNode) -> None:
        super().deliver_block(block)
        if block.source is not None and self._is_terminal(block.channel):
            self._drop_block(block)

    def pin_blocks(self, blocks: Iterable[BlockNode]) -> None:
        """Pin blocks that are being read: nothing is chained across their targets until they are unpinned."""
        for block in blocks:
            self._pinned[block.channel][block.target] += 1

    def unpin_blocks(self, blocks: Iterable[BlockNode]) -> None:
        for block in blocks:
            pinned = self._pinned[block.channel]
            pinned[block.target] -= 1
            if not pinned[block.target]:
                del pinned[block.target]

    def trim_channels(self, channels: Iterable[str], clock: PlanningClock) -> None:
        """Drop passed blocks and chain deltas, after readers of these channels advanced."""
        for channel in channels:
            if self._drops and not _is_trimmed(self._blocks[channel]):
                self._drop_passed_blocks(channel, clock)
            if self._chains and len(self._blocks[channel]) > 1:
                targets = {b.target for b in self._blocks[channel] if b.source is not None}
                self._chain_deltas(channel, [b.source for b in self._blocks[channel] if b.source in targets])

    def _is_terminal(self, channel: str) -> bool:
        """Tell whether it is an output from which nothing is derived."""
        consumers = self.index.children[channel] or self.index.channels[channel].conversions
        return channel in self.delivered and not consumers

    def _drop_block(self, block: BlockNode) -> None:
        self._blocks[block.channel].pop(block, None)
        self._parts.pop(block, None)

    def _drop_passed_blocks(self, channel: str, clock: PlanningClock) -> None:
        pinned = self._pinned[channel]
        ends = {b: clock.find_ends(channel, b.target) for b in self._blocks[channel]}
        bases = {b: block_ends for b, block_ends in ends.items() if b.shape is BlockShape.BASE}
        if not bases:
            return
        last = self._find_passed_base(channel, bases, clock)
        needed = _find_maximal(bases)
        for point in self.find_resume_points(channel):
            needed |= _find_maximal(
                {
                    b: block_ends
                    for b, block_ends in bases.items()
                    if _has_reached(clock.find_ends(channel, point), block_ends)
                }
            )
        for block, block_ends in ends.items():
            passed = last is not None and block is not last and _has_reached(ends[last], block_ends)
            if (passed or (block in bases and block not in needed)) and block.target not in pinned:
                self._drop_block(block)

    def _find_passed_base(
        self, channel: str, bases: Mapping[BlockNode, Ends], clock: PlanningClock
    ) -> BlockNode | None:
        """Return the last base that all outputs have passed. Older content can be rebuilt from there."""
        parts = (
            self.index.slice_vector(self._consumed[r.channel], channel, r.offset) for r in self.index.routes[channel]
        )
        reached = [clock.find_ends(channel, p) for p in parts]
        if not reached or any(NEVER in r for r in reached):
            return None
        passed = [b for b, base_ends in bases.items() if all(_has_reached(r, base_ends) for r in reached)]
        return max(passed, key=bases.__getitem__, default=None)

    def _chain_deltas(self, channel: str, joints: Iterable[Vector]) -> None:
        """Chain two adjacent deltas where no consumer resumes and no other delta joins."""
        shelf = self._blocks[channel]
        for joint in joints:
            before = [b for b in shelf if b.target == joint]
            after = [b for b in shelf if b.source == joint]
            if len(before) != 1 or len(after) != 1 or before == after:
                continue
            chain = chain_blocks(before[0], after[0])
            if (
                chain is not None
                and joint not in self.find_resume_points(channel)
                and joint not in self._pinned[channel]
            ):
                del shelf[before[0]], shelf[after[0]]
                shelf[chain] = chain
                self._parts[chain] = self._join_parts(before[0], after[0])

    def _join_parts(self, first: BlockNode, second: BlockNode) -> deque[BlockNode]:
        parts = self._parts.pop(first, deque([first]))
        parts.extend(self._parts.pop(second, deque([second])))
        while len(parts) > MAX_CHAIN_PARTS and (oldest := chain_blocks(parts[0], parts[1])) is not None:
            parts.popleft()
            parts[0] = oldest
        return parts


def _is_trimmed(shelf: ChannelBlocks) -> bool:
    """Tell whether nothing can be dropped: there is at most one base, and all other blocks came after it."""
    return all(b.shape is not BlockShape.BASE for b in islice(shelf, 1, None))


def _find_maximal(bases: Mapping[BlockNode, Ends]) -> set[BlockNode]:
    """Return the bases that no other base dominates."""
    if len(bases) < 2:
        return set(bases)
    return {
        b
        for b, base_ends in bases.items()
        if not any(base_ends != other and _has_reached(other, base_ends) for other in bases.values())
    }


def _has_reached(later: Ends, earlier: Ends) -> bool:
    """Tell whether no entry of `earlier` is after that of `later`; an empty entry is after none."""
    return all(map(ge, later, earlier))


def find_due_time(inventory: BlockInventory, output: str, timeline: Timeline) -> int | None:
    """Return when an output becomes too stale if nothing is done; None if that is not foreseeable."""
    index = inventory.index
    delivered = inventory.delivered[output]
    if not any(delivered):
        return timeline.now
    ends = PlanningClock(timeline, index.inputs).find_ends(output, delivered)
    return get_declared_limit(index, output).find_violation_time(ends, timeline.now)
