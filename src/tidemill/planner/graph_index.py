"""What follows from a graph alone, worked out once: pathways and where each channel's stand in those after it.

Reading several channels concatenates their pathways, so the part of a channel in whatever is derived from it is a
slice: `Part(channel, offset)` says where it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tidemill.model.provenance import Pathway
from tidemill.planner.graph import (
    BlockShape,
    ChannelNode,
    PlanningGraph,
    PortRequirement,
    ShapeConversion,
    TaskNode,
    VariantNode,
)
from tidemill.planner.vector import Vector


@dataclass(frozen=True, slots=True)
class PathwaySlice:
    """Where a channel's pathways begin among those of a channel derived from it."""

    channel: str
    offset: int


@dataclass(frozen=True, slots=True)
class BlockProducer:
    """A variant of a task, or a conversion on a channel, and the shapes that it makes on the channels it writes."""

    task: str
    variant: str
    writes: tuple[tuple[str, BlockShape], ...]
    strict: bool = False


Port = tuple[str, PortRequirement]
"""A channel that is read, and what is taken from it."""


@dataclass(frozen=True, slots=True)
class BlockUse:
    """A variant that can take a block of some shape from one of its channels; what it takes before and after that."""

    maker: BlockProducer
    before: tuple[Port, ...]
    take: PortRequirement
    as_old: bool  # as the base that its delta starts from
    after: tuple[Port, ...]


class GraphIndex:
    """A graph, and what follows from it."""

    def __init__(self, graph: PlanningGraph) -> None:
        self.graph = graph
        self.channels: Mapping[str, ChannelNode] = {c.name: c for c in graph.channels}
        self.writer: Mapping[str, TaskNode] = {name: task for task in graph.tasks for name in task.writes}
        self.pathways: Mapping[str, tuple[Pathway, ...]] = _build_pathways(graph, self.writer)
        self._upstream: dict[str, tuple[str, ...]] = {}
        self.inputs: Mapping[str, tuple[str, ...]] = _find_inputs(self.pathways)

    @cached_property
    def children(self) -> Mapping[str, tuple[PathwaySlice, ...]]:
        """For each channel, the channels made directly from it."""
        found: dict[str, list[PathwaySlice]] = {c: [] for c in self.channels}
        for task in self.graph.tasks:
            for read, offset in self._list_offsets(task):
                found[read] += (PathwaySlice(name, offset) for name in task.writes)
        return {c: tuple(parts) for c, parts in found.items()}

    @cached_property
    def routes(self) -> Mapping[str, tuple[PathwaySlice, ...]]:
        """For each channel, every route to an output: the output, and where the channel's pathways end up in it."""
        found: dict[str, tuple[PathwaySlice, ...]] = {}
        for channel in reversed(self._ordered_channels):
            own = (PathwaySlice(channel, 0),) if self.channels[channel].accepts else ()
            onward = (
                PathwaySlice(r.channel, r.offset + c.offset) for c in self.children[channel] for r in found[c.channel]
            )
            found[channel] = (*own, *onward)
        return found

    @cached_property
    def uses(self) -> Mapping[tuple[str, BlockShape], tuple[BlockUse, ...]]:
        """Who can take a block of this shape from this channel."""
        found: dict[tuple[str, BlockShape], list[BlockUse]] = {(c, s): [] for c in self.channels for s in BlockShape}
        for task in self.graph.tasks:
            for variant in task.variants:
                maker = _build_producer(task, variant)
                ports = tuple(zip(task.reads, variant.takes, strict=True))
                for at, (channel, take) in enumerate(ports):
                    for shape, as_old in _list_shapes(take):
                        found[channel, shape].append(BlockUse(maker, ports[:at], take, as_old, ports[at + 1 :]))
        return {key: tuple(uses) for key, uses in found.items()}

    @cached_property
    def support_channels(self) -> frozenset[str]:
        """Channels of which somebody may need a base as it was before."""
        read = {c for t in self.graph.tasks for v in t.variants for c, k in zip(t.reads, v.takes, strict=True) if k.old}
        made = {c.name for c in self.graph.channels for k in c.conversions if k.makes is not BlockShape.BASE}
        return frozenset(read | made)

    @cached_property
    def converters(self) -> Mapping[tuple[str, BlockShape], tuple[tuple[ShapeConversion, BlockProducer], ...]]:
        """The conversions of each channel in which a block of this shape takes part, if only as the old base."""
        return {
            (c.name, shape): tuple(
                (k, BlockProducer(c.name, k.name, ((c.name, k.makes),)))
                for k in c.conversions
                if shape is BlockShape.BASE or k.can_take(shape)
            )
            for c in self.graph.channels
            for shape in BlockShape
        }

    def list_upstream(self, channel: str) -> tuple[str, ...]:
        """The channel and all that it is derived from, what is derived last."""
        if channel not in self._upstream:
            self._upstream[channel] = self._find_upstream(channel)
        return self._upstream[channel]

    def _find_upstream(self, channel: str) -> tuple[str, ...]:
        wanted = {channel}
        for name in reversed(self._ordered_channels):
            if name in wanted and name in self.writer:
                wanted.update(self.writer[name].reads)
        return tuple(c for c in self._ordered_channels if c in wanted)

    def slice_vector(self, vector: Vector, channel: str, offset: int) -> Vector:
        """The slice of a derived channel's vector that is `channel`'s own."""
        return vector[offset : offset + len(self.pathways[channel])]

    def build_empty_vector(self, channel: str) -> Vector:
        return ((),) * len(self.pathways[channel])

    @cached_property
    def _ordered_channels(self) -> tuple[str, ...]:
        fed = [c for c in self.channels if c not in self.writer]
        return (*fed, *(name for task in self.graph.tasks for name in task.writes))

    def _list_offsets(self, task: TaskNode) -> Iterator[tuple[str, int]]:
        offset = 0
        for read in task.reads:
            yield read, offset
            offset += len(self.pathways[read])


def _build_pathways(graph: PlanningGraph, writer: Mapping[str, TaskNode]) -> dict[str, tuple[Pathway, ...]]:
    found: dict[str, tuple[Pathway, ...]] = {c.name: ((c.name,),) for c in graph.channels if c.name not in writer}
    for task in graph.tasks:
        seen = tuple(p for read in task.reads for p in _extend_pathways(read, found[read], read in writer))
        found |= dict.fromkeys(task.writes, seen)
    return found


def _find_inputs(pathways: Mapping[str, tuple[Pathway, ...]]) -> dict[str, tuple[str, ...]]:
    """Where the pathways of each channel begin; one object for all channels for which that is the same."""
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    begins = {channel: tuple(p[0] for p in paths) for channel, paths in pathways.items()}
    return {channel: shared.setdefault(names, names) for channel, names in begins.items()}


def _extend_pathways(channel: str, pathways: tuple[Pathway, ...], derived: bool) -> tuple[Pathway, ...]:
    return tuple((*p, channel) for p in pathways) if derived else pathways


def _build_producer(task: TaskNode, variant: VariantNode) -> BlockProducer:
    return BlockProducer(task.name, variant.name, tuple(zip(task.writes, variant.makes, strict=True)), variant.strict)


def _list_shapes(take: PortRequirement) -> Iterator[tuple[BlockShape, bool]]:
    yield from ((shape, False) for shape in BlockShape if take.can_take(shape))
    if take.old:
        yield BlockShape.BASE, True
