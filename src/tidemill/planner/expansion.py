"""Lists the blocks that can be derived from a block and those expanded before it, without evaluating them."""

from collections.abc import Iterable, Mapping
from itertools import product

from tidemill.planner.block_inventory import chain_blocks
from tidemill.planner.candidates import Candidate, CandidateIndex, Filling
from tidemill.planner.graph import BlockNode, BlockShape, ShapeConversion
from tidemill.planner.graph_index import BlockProducer, BlockUse, GraphIndex, Port
from tidemill.planner.vector import Vector, apply_delta, is_before, is_legal_delta

Uses = Mapping[tuple[str, BlockShape], tuple[BlockUse, ...]]

Offer = tuple[Filling, tuple[BlockNode, ...], BlockProducer | None]
"""Blocks that are read, blocks that are written, and their producer; a chain has none: it is only read as one block."""

Reach = tuple[Filling, Vector, Vector]
"""Blocks that are read, and the source and target of the derived blocks."""


class CandidateExpansion:
    """Combines each block with every earlier one, so each combination occurs once."""

    def __init__(self, index: GraphIndex, uses: Uses, channels: Iterable[str]) -> None:
        self._graph_index, self._uses = index, uses
        self._index = {c: CandidateIndex() for c in channels}

    def add_candidate(self, candidate: Candidate) -> None:
        self._index[candidate.block.channel].add_candidate(candidate)

    def list_offers(self, candidate: Candidate) -> list[Offer]:
        block = candidate.block
        kind = block.channel, block.shape
        index = self._index[block.channel]
        index.add_candidate(candidate)
        offers: list[Offer] = []
        for conversion, producer in self._graph_index.converters[kind]:
            for reached in _list_conversions(conversion, candidate, index):
                _add_offer(offers, producer, reached)
        if block.source is not None:
            offers += _list_chains(candidate, block.source, index)
        for use in self._uses[kind]:
            if candidate.fit or use.as_old:
                fillings = index.list_fillings_with(candidate, use.requirement, use.as_old)
                for reached in self._combine_fillings(use, fillings):
                    _add_offer(offers, use.producer, reached)
        return offers

    def _combine_fillings(self, use: BlockUse, fillings: list[Filling]) -> list[Reach]:
        """Return all combinations of one of these fillings with fillings of the variant's other ports."""
        choices = [_build_reach(filling) for filling in fillings]
        if not choices or not (use.before or use.after):
            return choices
        ports = [*map(self._list_choices, use.before), choices, *map(self._list_choices, use.after)]
        return [_combine_reaches(chosen) for chosen in product(*ports)]

    def _list_choices(self, port: Port) -> list[Reach]:
        channel, take = port
        if take.shape is None:
            empty = self._graph_index.build_empty_vector(channel)
            return [((), empty, empty)]
        return [_build_reach(filling) for filling in self._index[channel].list_fillings(take)]


def _build_reach(filling: Filling) -> Reach:
    """Return the source and target of a filling; a base that is read does not move."""
    block = filling[-1].block
    return filling, block.target if block.source is None else block.source, block.target


def _combine_reaches(chosen: Iterable[Reach]) -> Reach:
    parts: Filling = ()
    source: Vector = ()
    target: Vector = ()
    for filling, start, end in chosen:
        parts += filling
        source += start
        target += end
    return parts, source, target


def _add_offer(offers: list[Offer], producer: BlockProducer, reached: Reach) -> None:
    """Add the derived blocks; a delta that changes nothing is left out."""
    parts, source, target = reached
    if source != target or producer.writes[0][1] is BlockShape.BASE:
        blocks = tuple([BlockNode(c, s, None if s is BlockShape.BASE else source, target) for c, s in producer.writes])
        offers.append((parts, blocks, producer))


def _list_conversions(conversion: ShapeConversion, candidate: Candidate, index: CandidateIndex) -> list[Reach]:
    """List the conversions of an old base and a block, one of which is the candidate."""
    if conversion.source_shape is BlockShape.BASE:
        return _list_differences(candidate, index)
    if conversion.target_shape is BlockShape.BASE and len(candidate.block.target) > 1:
        return _list_mixtures(conversion, candidate, index)
    pairs = [pair for pair in index.find_pairs(candidate) if conversion.can_take(pair[1].block.shape)]
    return [(pair, pair[0].block.target, pair[1].block.target) for pair in pairs]


def _list_differences(candidate: Candidate, index: CandidateIndex) -> list[Reach]:
    others = [other for other in index.bases.values() if other is not candidate]
    pairs = [(old, candidate) for old in others] + [(candidate, new) for new in others]
    return [((o, n), o.block.target, n.block.target) for o, n in pairs if n.fit and is_before(o.ends, n.ends)]


def _list_mixtures(conversion: ShapeConversion, candidate: Candidate, index: CandidateIndex) -> list[Reach]:
    """List pairs of a base and an applicable delta: with several pathways, a delta applies to several bases."""
    if candidate.block.source is None:
        deltas = [delta for deltas in index.starting.values() for delta in deltas]
        pairs = [(candidate, delta) for delta in deltas if conversion.can_take(delta.block.shape)]
    else:
        pairs = [(base, candidate) for base in index.bases.values()]
    moves = [(pair, pair[0].block.target, pair[1].block.source or (), pair[1].block.target) for pair in pairs]
    return [
        (pair, source, apply_delta(base_vector, source, target))
        for pair, base_vector, source, target in moves
        if is_legal_delta(base_vector, source, target)
    ]


def _list_chains(candidate: Candidate, source: Vector, index: CandidateIndex) -> list[Offer]:
    """List the chains of adjacent deltas, which are read as one block, at no cost."""
    pairs = [(candidate, after) for after in index.starting.get(candidate.block.target, ())]
    pairs += [(before, candidate) for before in index.ending.get(source, ())]
    chains = [((before, after), chain_blocks(before.block, after.block)) for before, after in pairs]
    return [(parts, (chain,), None) for parts, chain in chains if chain is not None and chain.source != chain.target]
