"""What can be made of a block together with those that were expanded before it. Nothing is judged or priced here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from tidemill.planner.block_inventory import chained
from tidemill.planner.candidates import Filling, Found, Index
from tidemill.planner.graph import Block, Conversion, Shape
from tidemill.planner.graph_index import Layout, Maker, Port, Use
from tidemill.planner.vector import Vector, applied, legal, precedes

Uses = Mapping[tuple[str, Shape], tuple[Use, ...]]

Offer = tuple[Filling, tuple[Block, ...], Maker | None]
"""Blocks that are read, blocks that they become, and who makes them; nobody makes a chain: it is only read as one."""

Reached = tuple[Filling, Vector, Vector]
"""What is read, where what is made of it starts, and what that leads to."""


class Expansion:
    """Tries every block that comes with every other that came before, so each combination once."""

    def __init__(self, layout: Layout, uses: Uses, channels: Iterable[str]) -> None:
        self._layout, self._uses = layout, uses
        self._index = {c: Index() for c in channels}

    def put(self, found: Found) -> None:
        """Keep a block for those that come to be combined with."""
        self._index[found.block.channel].put(found)

    def of(self, found: Found) -> list[Offer]:
        block = found.block
        kind = block.channel, block.shape
        index = self._index[block.channel]
        index.put(found)
        offers: list[Offer] = []
        for conversion, maker in self._layout.converters[kind]:
            for reached in _converted(conversion, found, index):
                _offer(offers, maker, reached)
        if block.source is not None:
            offers += _chains(found, block.source, index)
        for use in self._uses[kind]:
            if found.fit or use.as_old:
                for reached in self._used(use, index.fillings_with(found, use.take, use.as_old)):
                    _offer(offers, use.maker, reached)
        return offers

    def _used(self, use: Use, own: list[Filling]) -> list[Reached]:
        """All ways to give a variant one of these, and whatever else it takes."""
        choices = [_reached(filling) for filling in own]
        if not choices or not (use.before or use.after):
            return choices
        ports = [*map(self._choices, use.before), choices, *map(self._choices, use.after)]
        return [_together(chosen) for chosen in product(*ports)]

    def _choices(self, port: Port) -> list[Reached]:
        channel, take = port
        if take.shape is None:
            nothing = self._layout.nothing(channel)
            return [((), nothing, nothing)]
        return [_reached(filling) for filling in self._index[channel].fillings(take)]


def _reached(filling: Filling) -> Reached:
    """A base that is read does not move."""
    block = filling[-1].block
    return filling, block.target if block.source is None else block.source, block.target


def _together(chosen: Iterable[Reached]) -> Reached:
    parts: Filling = ()
    source: Vector = ()
    target: Vector = ()
    for filling, start, end in chosen:
        parts += filling
        source += start
        target += end
    return parts, source, target


def _offer(offers: list[Offer], maker: Maker, reached: Reached) -> None:
    """Add what is made; a delta that changes nothing is none."""
    parts, source, target = reached
    if source != target or maker.writes[0][1] is Shape.BASE:
        blocks = tuple([Block(c, s, None if s is Shape.BASE else source, target) for c, s in maker.writes])
        offers.append((parts, blocks, maker))


def _converted(conversion: Conversion, found: Found, index: Index) -> list[Reached]:
    """What comes of an old base and the block to convert, one of them being what was found."""
    if conversion.takes is Shape.BASE:
        return _differences(found, index)
    if conversion.makes is Shape.BASE and len(found.block.target) > 1:
        return _mixtures(conversion, found, index)
    pairs = index.meeting(found)
    return [
        (pair, pair[0].block.target, pair[1].block.target) for pair in pairs if conversion.fits(pair[1].block.shape)
    ]


def _differences(found: Found, index: Index) -> list[Reached]:
    others = [other for other in index.bases.values() if other is not found]
    pairs = [(old, found) for old in others] + [(found, new) for new in others]
    return [((o, n), o.block.target, n.block.target) for o, n in pairs if n.fit and precedes(o.ends, n.ends)]


def _mixtures(conversion: Conversion, found: Found, index: Index) -> list[Reached]:
    """Of several pathways, a delta applies to more than the base that it starts from."""
    if found.block.source is None:
        deltas = [delta for deltas in index.starting.values() for delta in deltas]
        pairs = [(found, delta) for delta in deltas if conversion.fits(delta.block.shape)]
    else:
        pairs = [(base, found) for base in index.bases.values()]
    moves = [(pair, pair[0].block.target, pair[1].block.source or (), pair[1].block.target) for pair in pairs]
    return [
        (pair, source, applied(has, source, target))
        for pair, has, source, target in moves
        if legal(has, source, target)
    ]


def _chains(found: Found, source: Vector, index: Index) -> list[Offer]:
    """Deltas that meet are read as one, for nothing."""
    pairs = [(found, after) for after in index.starting.get(found.block.target, ())]
    pairs += [(before, found) for before in index.ending.get(source, ())]
    wholes = [((before, after), chained(before.block, after.block)) for before, after in pairs]
    return [(parts, (whole,), None) for parts, whole in wholes if whole is not None and whole.source != whole.target]
