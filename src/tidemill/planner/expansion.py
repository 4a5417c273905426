"""What can be made of a block together with those that were expanded before it. Nothing is judged or priced here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from tidemill.planner.block_inventory import chain_blocks
from tidemill.planner.candidates import Candidate, CandidateIndex, Filling
from tidemill.planner.graph import BlockNode, BlockShape, ShapeConversion
from tidemill.planner.graph_index import BlockProducer, BlockUse, GraphIndex, Port
from tidemill.planner.vector import Vector, apply_delta, is_before, is_legal_delta

Uses = Mapping[tuple[str, BlockShape], tuple[BlockUse, ...]]

Offer = tuple[Filling, tuple[BlockNode, ...], BlockProducer | None]
"""Blocks that are read, blocks that they become, and who makes them; nobody makes a chain: it is only read as one."""

Reached = tuple[Filling, Vector, Vector]
"""What is read, where what is made of it starts, and what that leads to."""


class CandidateExpansion:
    """Tries every block that comes with every other that came before, so each combination once."""

    def __init__(self, layout: GraphIndex, uses: Uses, channels: Iterable[str]) -> None:
        self._layout, self._uses = layout, uses
        self._index = {c: CandidateIndex() for c in channels}

    def add_candidate(self, found: Candidate) -> None:
        """Keep a block for those that come to be combined with."""
        self._index[found.block.channel].add_candidate(found)

    def list_offers(self, found: Candidate) -> list[Offer]:
        block = found.block
        kind = block.channel, block.shape
        index = self._index[block.channel]
        index.add_candidate(found)
        offers: list[Offer] = []
        for conversion, maker in self._layout.converters[kind]:
            for reached in _list_conversions(conversion, found, index):
                _add_offer(offers, maker, reached)
        if block.source is not None:
            offers += _list_chains(found, block.source, index)
        for use in self._uses[kind]:
            if found.fit or use.as_old:
                for reached in self._combine_fillings(use, index.list_fillings_with(found, use.take, use.as_old)):
                    _add_offer(offers, use.maker, reached)
        return offers

    def _combine_fillings(self, use: BlockUse, own: list[Filling]) -> list[Reached]:
        """All ways to give a variant one of these, and whatever else it takes."""
        choices = [_build_reach(filling) for filling in own]
        if not choices or not (use.before or use.after):
            return choices
        ports = [*map(self._list_choices, use.before), choices, *map(self._list_choices, use.after)]
        return [_combine_reaches(chosen) for chosen in product(*ports)]

    def _list_choices(self, port: Port) -> list[Reached]:
        channel, take = port
        if take.shape is None:
            nothing = self._layout.build_empty_vector(channel)
            return [((), nothing, nothing)]
        return [_build_reach(filling) for filling in self._index[channel].list_fillings(take)]


def _build_reach(filling: Filling) -> Reached:
    """A base that is read does not move."""
    block = filling[-1].block
    return filling, block.target if block.source is None else block.source, block.target


def _combine_reaches(chosen: Iterable[Reached]) -> Reached:
    parts: Filling = ()
    source: Vector = ()
    target: Vector = ()
    for filling, start, end in chosen:
        parts += filling
        source += start
        target += end
    return parts, source, target


def _add_offer(offers: list[Offer], maker: BlockProducer, reached: Reached) -> None:
    """Add what is made; a delta that changes nothing is none."""
    parts, source, target = reached
    if source != target or maker.writes[0][1] is BlockShape.BASE:
        blocks = tuple([BlockNode(c, s, None if s is BlockShape.BASE else source, target) for c, s in maker.writes])
        offers.append((parts, blocks, maker))


def _list_conversions(conversion: ShapeConversion, found: Candidate, index: CandidateIndex) -> list[Reached]:
    """What comes of an old base and the block to convert, one of them being what was found."""
    if conversion.takes is BlockShape.BASE:
        return _list_differences(found, index)
    if conversion.makes is BlockShape.BASE and len(found.block.target) > 1:
        return _list_mixtures(conversion, found, index)
    pairs = index.find_pairs(found)
    return [
        (pair, pair[0].block.target, pair[1].block.target) for pair in pairs if conversion.can_take(pair[1].block.shape)
    ]


def _list_differences(found: Candidate, index: CandidateIndex) -> list[Reached]:
    others = [other for other in index.bases.values() if other is not found]
    pairs = [(old, found) for old in others] + [(found, new) for new in others]
    return [((o, n), o.block.target, n.block.target) for o, n in pairs if n.fit and is_before(o.ends, n.ends)]


def _list_mixtures(conversion: ShapeConversion, found: Candidate, index: CandidateIndex) -> list[Reached]:
    """Of several pathways, a delta applies to more than the base that it starts from."""
    if found.block.source is None:
        deltas = [delta for deltas in index.starting.values() for delta in deltas]
        pairs = [(found, delta) for delta in deltas if conversion.can_take(delta.block.shape)]
    else:
        pairs = [(base, found) for base in index.bases.values()]
    moves = [(pair, pair[0].block.target, pair[1].block.source or (), pair[1].block.target) for pair in pairs]
    return [
        (pair, source, apply_delta(has, source, target))
        for pair, has, source, target in moves
        if is_legal_delta(has, source, target)
    ]


def _list_chains(found: Candidate, source: Vector, index: CandidateIndex) -> list[Offer]:
    """Deltas that meet are read as one, for nothing."""
    pairs = [(found, after) for after in index.starting.get(found.block.target, ())]
    pairs += [(before, found) for before in index.ending.get(source, ())]
    wholes = [((before, after), chain_blocks(before.block, after.block)) for before, after in pairs]
    return [(parts, (whole,), None) for parts, whole in wholes if whole is not None and whole.source != whole.target]
