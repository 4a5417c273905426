"""All plans of a small workflow, found the slow and obvious way: make everything that can be made, then choose.

Nothing here comes from the planner but the words of a graph: provenance is the model's, blocks are found by trying
every combination, and plans by trying every way to make every block.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import inf

from tests.planner.worlds import price

from tidemill.model.provenance import EMPTY_PROVENANCE, Provenance, apply_delta, merge_provenances
from tidemill.model.time import Timeline
from tidemill.planner.graph import BlockNode, BlockShape, ChannelNode, PlanningGraph, PortRequirement, TaskNode
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.vector import unpack_vector


@dataclass(frozen=True)
class Piece:
    """A block, by the model's provenance."""

    channel: str
    shape: BlockShape
    source: Provenance | None
    target: Provenance


@dataclass(frozen=True)
class Edge:
    parts: frozenset[Piece]
    made: tuple[Piece, ...]
    cost: float


LIMIT = 50


class TooLarge(Exception):
    """More can be made than is worth trying."""


def holds(channel: ChannelNode, target: Provenance, time: Timeline) -> bool:
    for pathway, bound in channel.bounds.staleness.items():
        end = target.find_pathway_end(pathway, time)
        if end is not None and end + bound < time.now:
            return False
    start, end = target.find_start(), target.find_end(time)
    bound = channel.bounds.inconsistency
    return bound is None or start is None or end is None or start < end + bound


def is_legal(has: Provenance, source: Provenance, target: Provenance) -> bool:
    pathways = has.pathways.keys() | source.pathways.keys() | target.pathways.keys()
    return all(has[p] == source[p] or source[p] == target[p] for p in pathways)


def goes_forward(has: Provenance, reached: Provenance, time: Timeline) -> bool:
    if any(p not in reached.pathways for p in has.pathways):
        return False
    pairs = [(has.find_pathway_end(p, time) or -1, reached.find_pathway_end(p, time) or -1) for p in reached.pathways]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


class World:
    """Everything that can be made of some blocks at a moment.

    Stale bases may be made to start from: anywhere, or only at the given points.
    """

    def __init__(
        self,
        graph: PlanningGraph,
        blocks: Iterable[BlockNode],
        time: Timeline,
        points: Container[tuple[str, Provenance]] | None = None,
        market: int = 0,
    ) -> None:
        layout = GraphIndex(graph)
        self.graph, self.time, self.points, self.market = graph, time, points, market
        self.channels = {c.name: c for c in graph.channels}
        self.derived = set(layout.writer)
        self.pathways = layout.pathways
        self.existing = {self.piece(b) for b in blocks}
        self.pieces = set(self.existing)
        self.edges: set[Edge] = set()
        while self._grow():
            pass

    def piece(self, block: BlockNode) -> Piece:
        pathways = self.pathways[block.channel]
        source = None if block.source is None else unpack_vector(block.source, pathways)
        return Piece(block.channel, block.shape, source, unpack_vector(block.target, pathways))

    def accepted(self, output: str, has: Provenance) -> list[Piece]:
        return [p for p in self.pieces if p.channel == output and self._does(p, has)]

    def _does(self, piece: Piece, has: Provenance) -> bool:
        channel = self.channels[piece.channel]
        reached = piece.target
        if piece.source is not None:
            if not is_legal(has, piece.source, piece.target):
                return False
            reached = apply_delta(has, piece.source, piece.target)
        fine = piece.shape in channel.accepts and holds(channel, reached, self.time)
        return fine and goes_forward(has, reached, self.time)

    def _grow(self) -> bool:
        found = {*self._by_tasks(), *self._by_conversions(), *self._by_chains()}
        of_use = (replace(e, made=tuple(filter(self._may_be_made, e.made))) for e in found)
        new = {e for e in of_use if e.made} - self.edges
        self.edges |= new
        made = {p for e in new for p in e.made} - self.pieces
        self.pieces |= made
        if len(self.pieces) > LIMIT:
            raise TooLarge
        return bool(made or new)

    def _may_be_made(self, piece: Piece) -> bool:
        """Nothing that starts nowhere or leads nowhere; unfit bases to start from; and nothing else unfit."""
        if piece.source == piece.target:
            return False
        return piece.channel in self.graph.outputs or self.is_fit(piece) or self.is_start(piece)

    def is_start(self, piece: Piece) -> bool:
        return piece.shape is BlockShape.BASE and (self.points is None or (piece.channel, piece.target) in self.points)

    def is_fit(self, piece: Piece) -> bool:
        return holds(self.channels[piece.channel], piece.target, self.time)

    def _on(self, channel: str) -> list[Piece]:
        return [p for p in self.pieces if p.channel == channel]

    def _by_tasks(self) -> Iterator[Edge]:
        for task in self.graph.tasks:
            for variant in task.variants:
                choices = [list(self._fillings(c, t)) for c, t in zip(task.reads, variant.requirements, strict=True)]
                for fillings in product(*choices):
                    yield self._run(task, variant.name, variant.output_shapes, fillings)

    def _fillings(self, channel: str, take: PortRequirement) -> Iterator[tuple[Piece, ...]]:
        if take.shape is None:
            yield ()
        for piece in self._on(channel):
            if take.shape is not None and take.can_take(piece.shape) and self.is_fit(piece):
                if not take.needs_old_base:
                    yield (piece,)
                else:
                    yield from ((b, piece) for b in self._on(channel) if b.source is None and b.target == piece.source)

    def _run(
        self, task: TaskNode, variant: str, makes: tuple[BlockShape, ...], fillings: tuple[tuple[Piece, ...], ...]
    ) -> Edge:
        target = merge_provenances(self._seen(f[-1].channel, f[-1].target) for f in fillings if f)
        sources = (f[-1].target if f[-1].source is None else f[-1].source for f in fillings if f)
        source = merge_provenances(
            self._seen(f[-1].channel, s) for f, s in zip(filter(None, fillings), sources, strict=True)
        )
        made = tuple(
            Piece(c, s, None if s is BlockShape.BASE else source, target)
            for c, s in zip(task.writes, makes, strict=True)
        )  # fmt: skip
        parts = frozenset(p for f in fillings for p in f)
        return Edge(parts, made, price(task.name, variant, sum(map(weight, parts)), self.market))

    def _seen(self, channel: str, provenance: Provenance) -> Provenance:
        return provenance.append_channel(channel) if channel in self.derived else provenance

    def _by_conversions(self) -> Iterator[Edge]:
        for channel in self.graph.channels:
            for conversion in channel.conversions:
                for old, new in product(self._on(channel.name), repeat=2):
                    made = self._converted(conversion.source_shape, conversion.target_shape, old, new)
                    if made is not None and old.source is None and old is not new:
                        cost = price(channel.name, conversion.name, weight(old) + weight(new), self.market)
                        yield Edge(frozenset([old, new]), (made,), cost)

    def _converted(self, takes: BlockShape, makes: BlockShape, old: Piece, new: Piece) -> Piece | None:
        if not PortRequirement(takes).can_take(new.shape):
            return None
        if makes is BlockShape.BASE:
            if new.source is None or not is_legal(old.target, new.source, new.target):
                return None
            return Piece(new.channel, makes, None, apply_delta(old.target, new.source, new.target))
        if new.source is None:
            earlier = self.is_fit(new) and old.target.is_before(new.target, self.time)
            return Piece(new.channel, makes, old.target, new.target) if earlier else None
        return Piece(new.channel, makes, new.source, new.target) if new.source == old.target else None

    def _by_chains(self) -> Iterator[Edge]:
        deltas = [p for p in self.pieces if p.source is not None]
        for first, second in product(deltas, repeat=2):
            weak = {first.shape, second.shape} == {BlockShape.WEAK}
            strong = BlockShape.WEAK not in (first.shape, second.shape)
            if first.channel == second.channel and first.target == second.source and (weak or strong):
                shape = first.shape if first.shape is second.shape else BlockShape.STRONG
                yield Edge(frozenset([first, second]), (Piece(first.channel, shape, first.source, second.target),), 0.0)


def without_outdone(world: World, output: str, has: Provenance) -> tuple[list[Piece], set[Edge]]:
    """The goals and edges that are left if a piece is ignored as soon as a later one of its kind can be made.

    Only pieces that are taken for what they lead to compete: on the output's channel those that would do as the goal,
    elsewhere those that keep the bounds. A piece that is outdone may still be the base that a delta starts from.
    """
    accepted = world.accepted(output, has)
    competing = {p for p in accepted if p not in world.existing} | {
        p for p in world.pieces - world.existing if p.channel != output and world.is_fit(p)
    }
    outdone = {p for p in competing if any(_outdoes(other, p, world.time) for other in competing)}
    edges = {e for e in world.edges if all(p not in outdone or _is_start(world, p, e) for p in e.parts)}
    return [p for p in accepted if p not in outdone], edges


def _outdoes(later: Piece, piece: Piece, time: Timeline) -> bool:
    same = (later.channel, later.shape) == (piece.channel, piece.shape)
    return same and piece.target.is_before(later.target, time)


def _is_start(world: World, piece: Piece, edge: Edge) -> bool:
    starts = any(p.channel == piece.channel and p.source == piece.target for p in edge.parts)
    return starts and world.is_start(piece)


def weight(piece: Piece) -> int:
    """How large a block is said to be: a delta by how far it goes, a base by how far it has come."""
    source = EMPTY_PROVENANCE if piece.source is None else piece.source
    return sum(max(v) - max(source[p] or {0}) for p, v in piece.target.pathways.items())


def cheapest_if_each_use_is_paid(world: World, goals: list[Piece], edges: set[Edge] | None = None) -> float:
    cost = {p: 0.0 if p in world.existing else inf for p in world.pieces}
    changed = True
    while changed:
        changed = False
        for edge in world.edges if edges is None else edges:
            total = edge.cost + sum(cost[p] for p in edge.parts)
            for piece in edge.made:
                if total < cost[piece]:
                    cost[piece], changed = total, True
    return min((cost[g] for g in goals), default=inf)


def cheapest(world: World, goals: list[Piece], budget: int = 2_000) -> float:
    """The cost of the cheapest set of edges that makes a goal, each paid once."""
    makers: dict[Piece, list[Edge]] = {p: [] for p in world.pieces}
    for edge in sorted(world.edges, key=lambda e: e.cost):
        for piece in edge.made:
            makers[piece].append(edge)
    best, tried = inf, 0

    def choose(needed: frozenset[Piece], chosen: frozenset[Edge], cost: float) -> None:
        nonlocal best, tried
        tried += 1
        if tried > budget:
            raise TooLarge
        if cost >= best:
            return
        if not needed:
            best = cost if _runs(chosen, world.existing, needed_at_all) else best
            return
        piece = min(needed, key=lambda p: len(makers[p]))
        for edge in makers[piece]:
            if edge not in chosen:
                edges = chosen | {edge}
                made = {p for e in edges for p in e.made} | world.existing
                choose(frozenset((needed | edge.parts) - made), edges, cost + edge.cost)

    for goal in goals:
        needed_at_all = goal
        choose(frozenset([goal]) - world.existing, frozenset(), 0.0)
    return best


def _runs(edges: frozenset[Edge], existing: set[Piece], goal: Piece) -> bool:
    """Can these be run in some order, or does one wait for another in a circle?"""
    have, waiting = set(existing), set(edges)
    while ready := {e for e in waiting if e.parts <= have}:
        have |= {p for e in ready for p in e.made}
        waiting -= ready
    return goal in have
