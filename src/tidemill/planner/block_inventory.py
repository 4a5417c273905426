"""What exists: the blocks on each channel, and how far everybody has come.

A stock is kept from call to call, and small: deltas that nobody tells apart any more are one; what lies before the last
base that all outputs have passed is let go, and so is every base that is neither among the newest nor the last before a
point from which somebody goes on, and deltas that were handed over of an output of which nobody makes anything. So a
call costs the same however many blocks have arrived.

The planner never needs to know of which parts a chain was made: whoever runs the plan finds the deltas between two
points in the catalog.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import islice
from operator import ge

from tidemill.planner.graph import Block, Shape
from tidemill.planner.graph_index import Layout
from tidemill.planner.search import ALL, Rules
from tidemill.planner.vector import NEVER, Clock, Ends, Vector, applied, later_of

Shelf = dict[Block, Block]
"""The blocks of a channel, in the order in which they came; each under itself."""


PARTS = 64
"""Of so many deltas a chain is remembered to be made, for the case that no plan is found that takes it as a whole."""


class Stock:
    """The blocks of a workflow, and what has been made of them."""

    def __init__(self, layout: Layout, rules: Rules = ALL) -> None:
        self.layout = layout
        self.rules = rules
        self._shelves: dict[str, Shelf] = {c: {} for c in layout.channels}
        self._consumed = {c: layout.nothing(c) for c in layout.writer}
        self._delivered = {c: layout.nothing(c) for c in layout.graph.outputs}
        self._parts: dict[Block, deque[Block]] = {}
        self._points: dict[str, frozenset[Vector]] = {}
        self._pinned: dict[str, Counter[Vector]] = {c: Counter() for c in layout.channels}

    def blocks(self, channel: str, *, chained: bool = True) -> Iterable[Block]:
        """What is on a channel; chains as they are, or as what they were made of lately."""
        shelf = self._shelves[channel]
        return shelf if chained else [part for block in shelf for part in self._parts.get(block, (block,))]

    def delivered(self, output: str) -> Vector:
        """What the consumer of an output has, all its blocks applied: what bounds and progress are judged by."""
        return self._delivered[output]

    def add(self, block: Block) -> None:
        """A block arrived on an input channel, or was made on a derived one."""
        shelf = self._shelves[block.channel]
        shelf.pop(block, None)
        shelf[block] = block
        consumed = self._consumed.get(block.channel, block.target)
        if consumed != block.target:
            self._consumed[block.channel] = later_of(consumed, block.target)
            self._points.clear()
        if self.rules.chains and block.source is not None:
            self._chain(block.channel, (block.source, block.target))

    def deliver(self, block: Block) -> None:
        """A block was handed to the consumer of its channel."""
        has = self._delivered[block.channel]
        if block.source is None:
            self._delivered[block.channel] = block.target
        else:
            self._delivered[block.channel] = applied(has, block.source, block.target)
            if self._ends_here(block.channel):
                self._drop(block)

    def pin(self, blocks: Iterable[Block]) -> None:
        """These are being read: nothing may be chained across their targets until they are unpinned."""
        for block in blocks:
            self._pinned[block.channel][block.target] += 1

    def unpin(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            pinned = self._pinned[block.channel]
            pinned[block.target] -= 1
            if not pinned[block.target]:
                del pinned[block.target]

    def settle(self, channels: Iterable[str], clock: Clock) -> None:
        """Let go of what is passed and chain what nobody tells apart any more, after readers of these went on."""
        for channel in channels:
            if self.rules.old_blocks and not _is_tidy(self._shelves[channel]):
                self._let_go(channel, clock)
            if self.rules.chains and len(self._shelves[channel]) > 1:
                met = {b.target for b in self._shelves[channel] if b.source is not None}
                self._chain(channel, [b.source for b in self._shelves[channel] if b.source in met])

    def points(self, channel: str) -> frozenset[Vector]:
        """Where somebody stands who will go on from there: makers of derived channels, and outputs."""
        known = self._points.get(channel)
        if known is None:
            readers = (*self.layout.children[channel], *self.layout.routes[channel])
            parts = (self.layout.part(self._consumed[r.channel], channel, r.offset) for r in readers)
            known = self._points[channel] = frozenset(parts)
        return known

    def _ends_here(self, channel: str) -> bool:
        """Is it an output of which nobody makes anything?"""
        made = self.layout.children[channel] or self.layout.channels[channel].conversions
        return channel in self._delivered and not made

    def _drop(self, block: Block) -> None:
        self._shelves[block.channel].pop(block, None)
        self._parts.pop(block, None)

    def _let_go(self, channel: str, clock: Clock) -> None:
        pinned = self._pinned[channel]
        ends = {b: clock.ends(channel, b.target) for b in self._shelves[channel]}
        bases = {b: at for b, at in ends.items() if b.shape is Shape.BASE}
        if not bases:
            return
        last = self._last_passed(channel, bases, clock)
        needed = _maximal(bases)
        for point in self.points(channel):
            needed |= _maximal({b: at for b, at in bases.items() if _reaches(clock.ends(channel, point), at)})
        for block, at in ends.items():
            passed = last is not None and block is not last and _reaches(ends[last], at)
            if (passed or (block in bases and block not in needed)) and block.target not in pinned:
                self._drop(block)

    def _last_passed(self, channel: str, bases: Mapping[Block, Ends], clock: Clock) -> Block | None:
        """The last base that all outputs have passed. Whoever needs something older can make it from there."""
        parts = (self.layout.part(self._consumed[r.channel], channel, r.offset) for r in self.layout.routes[channel])
        reached = [clock.ends(channel, p) for p in parts]
        if not reached or any(NEVER in r for r in reached):
            return None
        behind = [b for b, at in bases.items() if all(_reaches(r, at) for r in reached)]
        return max(behind, key=bases.__getitem__, default=None)

    def _chain(self, channel: str, joints: Iterable[Vector]) -> None:
        """Make one delta of two that meet, where nobody stands and nothing else meets them."""
        shelf = self._shelves[channel]
        for joint in joints:
            before = [b for b in shelf if b.target == joint]
            after = [b for b in shelf if b.source == joint]
            if len(before) != 1 or len(after) != 1 or before == after:
                continue
            whole = chained(before[0], after[0])
            if whole is not None and joint not in self.points(channel) and joint not in self._pinned[channel]:
                del shelf[before[0]], shelf[after[0]]
                shelf[whole] = whole
                self._parts[whole] = self._joined(before[0], after[0])

    def _joined(self, first: Block, second: Block) -> deque[Block]:
        parts = self._parts.pop(first, deque([first]))
        parts.extend(self._parts.pop(second, deque([second])))
        while len(parts) > PARTS and (oldest := chained(parts[0], parts[1])) is not None:
            parts.popleft()
            parts[0] = oldest
        return parts


def _is_tidy(shelf: Shelf) -> bool:
    """Is there at most one base, and did all else come after it? Then there is nothing to let go of."""
    return all(b.shape is not Shape.BASE for b in islice(shelf, 1, None))


def _maximal(bases: Mapping[Block, Ends]) -> set[Block]:
    """Those that no other outdoes."""
    if len(bases) < 2:
        return set(bases)
    return {b for b, at in bases.items() if not any(at != other and _reaches(other, at) for other in bases.values())}


def _reaches(later: Ends, earlier: Ends) -> bool:
    """Is nothing of the one beyond the other? What contributes nothing is beyond nothing."""
    return all(map(ge, later, earlier))


def chained(first: Block, second: Block) -> Block | None:
    """Two deltas as one; None if they do not meet or cannot be read as one."""
    if first.source is None or first.target != second.source:
        return None
    shape = first.shape
    if shape is not second.shape:
        if Shape.WEAK in (shape, second.shape):
            return None
        shape = Shape.STRONG
    return Block(first.channel, shape, first.source, second.target, first.size + second.size)
