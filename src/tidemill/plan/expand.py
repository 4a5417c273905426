"""What can be made of a block together with those that were expanded before it. Nothing is judged or priced here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from tidemill.plan.found import Filling, Found, Index
from tidemill.plan.graph import Block, Conversion, Shape, Task, Variant
from tidemill.plan.layout import Layout, Use
from tidemill.plan.stock import chained
from tidemill.plan.vector import NOTHING, Clock, Entry, Vector, applied, legal, precedes

Uses = Mapping[tuple[str, Shape], tuple[Use, ...]]

Maker = tuple[Task, Variant]

Offer = tuple[Filling, tuple[Block, ...], Maker | None]
"""Blocks that are read, blocks that they become, and who makes them; nobody makes a chain: it is only read as one."""

Converted = tuple[Filling, Vector, Vector]
"""What a conversion reads, where what it makes starts, and what that leads to."""


class Expansion:
    """Tries every block that comes with every other that came before, so each combination once."""

    def __init__(self, layout: Layout, uses: Uses, channels: Iterable[str], clock: Clock) -> None:
        self._layout, self._uses, self._clock = layout, uses, clock
        self._index = {c: Index() for c in channels}

    def of(self, found: Found) -> Iterator[Offer]:
        channel, block = found.block.channel, found.block
        index = self._index[channel]
        index.put(found)
        for conversion, task, variant in self._layout.converters[channel]:
            for parts, source, target in self._conversions(conversion, found, index):
                yield from _made(task, variant, parts, source, target)
        if block.source is not None:
            yield from _chains(found, block.source, index)
        for use in self._uses[channel, block.shape]:
            if found.fit or use.as_old:
                yield from self._used(use, found, index)

    def _used(self, use: Use, found: Found, index: Index) -> Iterator[Offer]:
        task, variant = use.task, use.variant
        choices: list[Iterable[Filling]] = [
            index.fillings_with(found, take, use.as_old) if port == use.port else self._index[channel].fillings(take)
            for port, (channel, take) in enumerate(zip(task.reads, variant.takes, strict=True))
        ]
        for fillings in product(*choices):
            source, target = self._reach(task, fillings)
            yield from _made(task, variant, sum(fillings, ()), source, target)

    def _reach(self, task: Task, fillings: tuple[Filling, ...]) -> tuple[Vector, Vector]:
        """Where what is made of these starts, and what it leads to; a base that is read does not move."""
        source: list[Entry] = []
        target: list[Entry] = []
        for channel, filling in zip(task.reads, fillings, strict=True):
            if filling:
                block = filling[-1].block
                source += block.target if block.source is None else block.source
                target += block.target
            else:
                nothing = [NOTHING] * len(self._layout.pathways[channel])
                source += nothing
                target += nothing
        return tuple(source), tuple(target)

    def _conversions(self, conversion: Conversion, found: Found, index: Index) -> Iterator[Converted]:
        for old, new in _pairs(conversion, found, index):
            base, source, target = old.block.target, new.block.source, new.block.target
            if source is None:
                if new.fit and self._precedes(old.block, new.block):
                    yield (old, new), base, target
            elif conversion.makes is not Shape.BASE:
                if source == base:
                    yield (old, new), source, target
            elif legal(base, source, target):
                yield (old, new), source, applied(base, source, target)

    def _precedes(self, earlier: Block, later: Block) -> bool:
        inputs = self._layout.inputs[earlier.channel]
        return precedes(self._clock.ends(earlier.target, inputs), self._clock.ends(later.target, inputs))


def _made(task: Task, variant: Variant, parts: Filling, source: Vector, target: Vector) -> Iterator[Offer]:
    shapes = zip(task.writes, variant.makes, strict=True)
    blocks = tuple([Block(c, s, None if s is Shape.BASE else source, target) for c, s in shapes])
    if blocks[0].source != target:  # a delta that changes nothing is none
        yield parts, blocks, (task, variant)


def _chains(found: Found, source: Vector, index: Index) -> Iterator[Offer]:
    """Deltas that meet are read as one, for nothing."""
    pairs = [(found, after) for after in index.starting.get(found.block.target, ())]
    pairs += [(before, found) for before in index.ending.get(source, ())]
    for before, after in pairs:
        whole = chained(before.block, after.block)
        if whole is not None and whole.source != whole.target:
            yield (before, after), (whole,), None


def _pairs(conversion: Conversion, found: Found, index: Index) -> Iterator[tuple[Found, Found]]:
    """The old base and the block to convert, one of them being what was found."""
    block = found.block
    if conversion.fits(block.shape):
        yield from ((old, found) for old in _old(block, index) if old is not found)
    if block.source is None:
        yield from ((found, new) for new in _new(conversion, block, index) if new is not found)


def _old(block: Block, index: Index) -> Iterable[Found]:
    """The bases with which a block could be converted; of one pathway, a delta applies to what it starts from alone."""
    if block.source is None or len(block.target) > 1:
        return index.bases.values()
    return [index.bases[block.source]] if block.source in index.bases else []


def _new(conversion: Conversion, base: Block, index: Index) -> Iterable[Found]:
    """The blocks that could be converted with an old base."""
    if conversion.takes is Shape.BASE:
        return index.bases.values()
    many = index.starting.values() if len(base.target) > 1 else [index.starting.get(base.target, [])]
    return [d for deltas in many for d in deltas if conversion.fits(d.block.shape)]
