"""The reference planner: derives every block that a small workflow can produce, then chooses the cheapest plan.

It shares only the graph's data types with the planner: provenance is the model's, blocks are found by trying
every combination, and plans by trying every derivation of every block.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import inf

from tests.model.provenance_rules import find_end, is_before
from tests.planner.random_workflows import price, unpack_vector

from tidemill.model.provenance import EMPTY_PROVENANCE, Provenance, apply_delta, merge_provenances
from tidemill.model.time import Timeline
from tidemill.planner.graph import BlockNode, BlockShape, ChannelNode, PlanningGraph, PortRequirement, TaskNode
from tidemill.planner.graph_index import GraphIndex


@dataclass(frozen=True)
class DerivedBlock:
    """A block, by the model's provenance."""

    channel: str
    shape: BlockShape
    source: Provenance | None
    target: Provenance


@dataclass(frozen=True)
class Edge:
    inputs: frozenset[DerivedBlock]
    outputs: tuple[DerivedBlock, ...]
    cost: float


MAX_BLOCKS = 50


class TooLarge(Exception):
    """More blocks can be derived than are worth trying."""


def meets_bounds(channel: ChannelNode, target: Provenance, time: Timeline) -> bool:
    for pathway, bound in channel.bounds.staleness.items():
        end = target.find_pathway_end(pathway, time)
        if end is not None and end + bound < time.now:
            return False
    start, end = target.find_start(), find_end(target, time)
    bound = channel.bounds.inconsistency
    return bound is None or start is None or end is None or start < end + bound


def is_legal(delivered: Provenance, source: Provenance, target: Provenance) -> bool:
    pathways = delivered.pathways.keys() | source.pathways.keys() | target.pathways.keys()
    return all(delivered[p] == source[p] or source[p] == target[p] for p in pathways)


def makes_progress(delivered: Provenance, reached: Provenance, time: Timeline) -> bool:
    if any(p not in reached.pathways for p in delivered.pathways):
        return False
    pairs = [
        (delivered.find_pathway_end(p, time) or -1, reached.find_pathway_end(p, time) or -1) for p in reached.pathways
    ]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


class PlanSpace:
    """All blocks that can be derived from existing blocks at a time.

    Stale bases may be derived to start from: anywhere, or only at the given points.
    """

    def __init__(
        self,
        graph: PlanningGraph,
        blocks: Iterable[BlockNode],
        time: Timeline,
        points: Container[tuple[str, Provenance]] | None = None,
        price_seed: int = 0,
    ) -> None:
        index = GraphIndex(graph)
        self.graph, self.time, self.points, self.price_seed = graph, time, points, price_seed
        self.channels = {c.name: c for c in graph.channels}
        self.derived = set(index.writer)
        self.pathways = index.pathways
        self.existing = {self.to_derived_block(b) for b in blocks}
        self.blocks = set(self.existing)
        self.edges: set[Edge] = set()
        while self._grow():
            pass

    def to_derived_block(self, block: BlockNode) -> DerivedBlock:
        pathways = self.pathways[block.channel]
        source = None if block.source is None else unpack_vector(block.source, pathways)
        return DerivedBlock(block.channel, block.shape, source, unpack_vector(block.target, pathways))

    def find_goals(self, output: str, delivered: Provenance) -> list[DerivedBlock]:
        return [p for p in self.blocks if p.channel == output and self._is_goal(p, delivered)]

    def _is_goal(self, block: DerivedBlock, delivered: Provenance) -> bool:
        channel = self.channels[block.channel]
        reached = block.target
        if block.source is not None:
            if not is_legal(delivered, block.source, block.target):
                return False
            reached = apply_delta(delivered, block.source, block.target)
        is_accepted = block.shape in channel.accepts and meets_bounds(channel, reached, self.time)
        return is_accepted and makes_progress(delivered, reached, self.time)

    def _grow(self) -> bool:
        candidates = {*self._derive_by_tasks(), *self._derive_by_conversions(), *self._derive_by_chains()}
        useful = (replace(e, outputs=tuple(filter(self._is_useful, e.outputs))) for e in candidates)
        new = {e for e in useful if e.outputs} - self.edges
        self.edges |= new
        outputs = {p for e in new for p in e.outputs} - self.blocks
        self.blocks |= outputs
        if len(self.blocks) > MAX_BLOCKS:
            raise TooLarge
        return bool(outputs or new)

    def _is_useful(self, block: DerivedBlock) -> bool:
        """Whether a block can contribute to a plan: it is an output, meets the bounds, or is a base to start from."""
        if block.source == block.target:
            return False
        return block.channel in self.graph.outputs or self.is_within_bounds(block) or self.is_start(block)

    def is_start(self, block: DerivedBlock) -> bool:
        return block.shape is BlockShape.BASE and (self.points is None or (block.channel, block.target) in self.points)

    def is_within_bounds(self, block: DerivedBlock) -> bool:
        return meets_bounds(self.channels[block.channel], block.target, self.time)

    def _list_blocks(self, channel: str) -> list[DerivedBlock]:
        return [p for p in self.blocks if p.channel == channel]

    def _derive_by_tasks(self) -> Iterator[Edge]:
        for task in self.graph.tasks:
            for variant in task.variants:
                choices = [
                    list(self._list_port_inputs(c, t)) for c, t in zip(task.reads, variant.requirements, strict=True)
                ]
                for port_inputs in product(*choices):
                    yield self._run(task, variant.name, variant.output_shapes, port_inputs)

    def _list_port_inputs(self, channel: str, requirement: PortRequirement) -> Iterator[tuple[DerivedBlock, ...]]:
        if requirement.shape is None:
            yield ()
        for block in self._list_blocks(channel):
            if requirement.shape is not None and requirement.can_take(block.shape) and self.is_within_bounds(block):
                if not requirement.needs_old_base:
                    yield (block,)
                else:
                    yield from (
                        (b, block) for b in self._list_blocks(channel) if b.source is None and b.target == block.source
                    )

    def _run(
        self,
        task: TaskNode,
        variant: str,
        output_shapes: tuple[BlockShape, ...],
        port_inputs: tuple[tuple[DerivedBlock, ...], ...],
    ) -> Edge:
        target = merge_provenances(self._extend_provenance(f[-1].channel, f[-1].target) for f in port_inputs if f)
        sources = (f[-1].target if f[-1].source is None else f[-1].source for f in port_inputs if f)
        source = merge_provenances(
            self._extend_provenance(f[-1].channel, s) for f, s in zip(filter(None, port_inputs), sources, strict=True)
        )
        outputs = tuple(
            DerivedBlock(c, s, None if s is BlockShape.BASE else source, target)
            for c, s in zip(task.writes, output_shapes, strict=True)
        )  # fmt: skip
        inputs = frozenset(p for f in port_inputs for p in f)
        return Edge(inputs, outputs, price(task.name, variant, sum(map(weight, inputs)), self.price_seed))

    def _extend_provenance(self, channel: str, provenance: Provenance) -> Provenance:
        return provenance.append_channel(channel) if channel in self.derived else provenance

    def _derive_by_conversions(self) -> Iterator[Edge]:
        for channel in self.graph.channels:
            for conversion in channel.conversions:
                for old, new in product(self._list_blocks(channel.name), repeat=2):
                    outputs = self._convert(conversion.source_shape, conversion.target_shape, old, new)
                    if outputs is not None and old.source is None and old is not new:
                        cost = price(channel.name, conversion.name, weight(old) + weight(new), self.price_seed)
                        yield Edge(frozenset([old, new]), (outputs,), cost)

    def _convert(
        self, input_shape: BlockShape, output_shape: BlockShape, old: DerivedBlock, new: DerivedBlock
    ) -> DerivedBlock | None:
        if not PortRequirement(input_shape).can_take(new.shape):
            return None
        if output_shape is BlockShape.BASE:
            if new.source is None or not is_legal(old.target, new.source, new.target):
                return None
            return DerivedBlock(new.channel, output_shape, None, apply_delta(old.target, new.source, new.target))
        if new.source is None:
            is_possible = self.is_within_bounds(new) and is_before(old.target, new.target, self.time)
            return DerivedBlock(new.channel, output_shape, old.target, new.target) if is_possible else None
        return DerivedBlock(new.channel, output_shape, new.source, new.target) if new.source == old.target else None

    def _derive_by_chains(self) -> Iterator[Edge]:
        deltas = [p for p in self.blocks if p.source is not None]
        for first, second in product(deltas, repeat=2):
            weak = {first.shape, second.shape} == {BlockShape.WEAK}
            strong = BlockShape.WEAK not in (first.shape, second.shape)
            if first.channel == second.channel and first.target == second.source and (weak or strong):
                shape = first.shape if first.shape is second.shape else BlockShape.STRONG
                yield Edge(
                    frozenset([first, second]), (DerivedBlock(first.channel, shape, first.source, second.target),), 0.0
                )


def exclude_dominated(space: PlanSpace, output: str, delivered: Provenance) -> tuple[list[DerivedBlock], set[Edge]]:
    """The goals and edges that remain if a block is ignored as soon as a later one for the same purpose can be derived.

    Only blocks that are used for their target compete: on the output's channel the goals, elsewhere the blocks that
    meet the bounds. A dominated block may still be the base that a delta starts from.
    """
    goals = space.find_goals(output, delivered)
    competing = {p for p in goals if p not in space.existing} | {
        p for p in space.blocks - space.existing if p.channel != output and space.is_within_bounds(p)
    }
    dominated = {p for p in competing if any(_dominates(o, p, delivered, output, space.time) for o in competing)}
    edges = {e for e in space.edges if all(p not in dominated or _is_start(space, p, e) for p in e.inputs)}
    return [p for p in goals if p not in dominated], edges


def _dominates(later: DerivedBlock, block: DerivedBlock, delivered: Provenance, output: str, time: Timeline) -> bool:
    """Whether a block ends later and starts where the other starts; a goal instead leads the consumer as far."""
    is_same_kind = (later.channel, later.shape) == (block.channel, block.shape)
    if not is_same_kind or not is_before(block.target, later.target, time):
        return False
    if block.channel != output:
        return later.source == block.source
    ends = [
        {p: reached.find_pathway_end(p, time) or -1 for p in reached.pathways}
        for reached in (_find_reached(delivered, block), _find_reached(delivered, later))
    ]
    return all(end <= ends[1].get(pathway, -1) for pathway, end in ends[0].items())


def _find_reached(delivered: Provenance, block: DerivedBlock) -> Provenance:
    return block.target if block.source is None else apply_delta(delivered, block.source, block.target)


def _is_start(space: PlanSpace, block: DerivedBlock, edge: Edge) -> bool:
    starts = any(p.channel == block.channel and p.source == block.target for p in edge.inputs)
    return starts and space.is_start(block)


def weight(block: DerivedBlock) -> int:
    """The assumed size of a block: the distance from its source to its target, or to its target from zero."""
    source = EMPTY_PROVENANCE if block.source is None else block.source
    return sum(max(v) - max(source[p] or {0}) for p, v in block.target.pathways.items())


def find_cheapest_without_sharing(space: PlanSpace, goals: list[DerivedBlock], edges: set[Edge] | None = None) -> float:
    cost = {p: 0.0 if p in space.existing else inf for p in space.blocks}
    changed = True
    while changed:
        changed = False
        for edge in space.edges if edges is None else edges:
            total = edge.cost + sum(cost[p] for p in edge.inputs)
            for block in edge.outputs:
                if total < cost[block]:
                    cost[block], changed = total, True
    return min((cost[g] for g in goals), default=inf)


def find_cheapest(space: PlanSpace, goals: list[DerivedBlock], budget: int = 2_000) -> float:
    """The cost of the cheapest set of edges that derives a goal, each paid once."""
    producers: dict[DerivedBlock, list[Edge]] = {p: [] for p in space.blocks}
    for edge in sorted(space.edges, key=lambda e: e.cost):
        for block in edge.outputs:
            producers[block].append(edge)
    best, attempts = inf, 0

    def choose(needed: frozenset[DerivedBlock], chosen: frozenset[Edge], cost: float) -> None:
        nonlocal best, attempts
        attempts += 1
        if attempts > budget:
            raise TooLarge
        if cost >= best:
            return
        if not needed:
            best = cost if _is_runnable(chosen, space.existing, current_goal) else best
            return
        block = min(needed, key=lambda p: len(producers[p]))
        for edge in producers[block]:
            if edge not in chosen:
                edges = chosen | {edge}
                outputs = {p for e in edges for p in e.outputs} | space.existing
                choose(frozenset((needed | edge.inputs) - outputs), edges, cost + edge.cost)

    for goal in goals:
        current_goal = goal
        choose(frozenset([goal]) - space.existing, frozenset(), 0.0)
    return best


def _is_runnable(edges: frozenset[Edge], existing: set[DerivedBlock], goal: DerivedBlock) -> bool:
    """Whether the edges can be run in some order, without a cycle."""
    available, waiting = set(existing), set(edges)
    while ready := {e for e in waiting if e.inputs <= available}:
        available |= {p for e in ready for p in e.outputs}
        waiting -= ready
    return goal in available
