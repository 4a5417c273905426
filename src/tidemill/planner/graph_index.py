"""Derived properties of a graph, computed once: pathways, and their offsets in downstream channels.

Reading several channels concatenates their pathways, so the part of a channel in a derived channel is a slice:
`PathwaySlice(channel, offset)` gives its beginning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from tidemill.model.provenance import Pathway
from tidemill.planner.graph import BlockShape, ChannelNode, PlanningGraph, PortRequirement, ShapeConversion, TaskNode
from tidemill.planner.vector import Vector


@dataclass(frozen=True, slots=True)
class PathwaySlice:
    """The offset of a channel's pathways among those of a channel derived from it."""

    channel: str
    offset: int


@dataclass(frozen=True, slots=True)
class BlockProducer:
    """A variant of a task, or a conversion on a channel, and the shapes that it writes to its channels."""

    task: str
    variant: str
    writes: tuple[tuple[str, BlockShape], ...]
    strict: bool = False


Port = tuple[str, PortRequirement]
"""A channel that is read, and the requirement on its block."""


@dataclass(frozen=True, slots=True)
class BlockUse:
    """A variant that can read a block of some shape from one of its channels, with its ports before and after it."""

    producer: BlockProducer
    before: tuple[Port, ...]
    requirement: PortRequirement
    as_old: bool  # as the base that its delta starts from
    after: tuple[Port, ...]


class GraphIndex:
    """A graph with its derived properties."""

    def __init__(self, graph: PlanningGraph) -> None:
        self.graph = graph
        self.channels: Mapping[str, ChannelNode] = {c.name: c for c in graph.channels}
        self.writer: Mapping[str, TaskNode] = {name: task for task in graph.tasks for name in task.writes}
        self.pathways: Mapping[str, tuple[Pathway, ...]] = _build_pathways(graph, self.writer)
        self.inputs: Mapping[str, tuple[str, ...]] = _find_inputs(self.pathways)

    @cached_property
    def children(self) -> Mapping[str, tuple[PathwaySlice, ...]]:
        """For each channel, the channels derived directly from it."""
        slices: dict[str, list[PathwaySlice]] = {c: [] for c in self.channels}
        for task in self.graph.tasks:
            offset = 0
            for read in task.reads:
                slices[read] += [PathwaySlice(name, offset) for name in task.writes]
                offset += len(self.pathways[read])
        return {c: tuple(parts) for c, parts in slices.items()}

    @cached_property
    def routes(self) -> Mapping[str, tuple[PathwaySlice, ...]]:
        """For each channel, every route to an output: the output, and the offset of the channel's pathways in it."""
        routes: dict[str, tuple[PathwaySlice, ...]] = {}
        for channel in reversed(self._ordered_channels):
            to_itself = (PathwaySlice(channel, 0),) if self.channels[channel].accepts else ()
            onward = ((r.channel, r.offset + c.offset) for c in self.children[channel] for r in routes[c.channel])
            routes[channel] = (*to_itself, *(PathwaySlice(*route) for route in onward))
        return routes

    @cached_property
    def uses(self) -> Mapping[tuple[str, BlockShape], tuple[BlockUse, ...]]:
        """The variants that can read a block of this shape from this channel."""
        keys = product(self.channels, BlockShape)
        uses_by_key: dict[tuple[str, BlockShape], list[BlockUse]] = {key: [] for key in keys}
        for task in self.graph.tasks:
            for variant in task.variants:
                writes = tuple(zip(task.writes, variant.output_shapes, strict=True))
                producer = BlockProducer(task.name, variant.name, writes, variant.strict)
                ports = tuple(zip(task.reads, variant.requirements, strict=True))
                for position, (channel, take) in enumerate(ports):
                    shapes = [(shape, False) for shape in BlockShape if take.can_take(shape)]
                    for shape, as_old in [*shapes, *([(BlockShape.BASE, True)] if take.needs_old_base else [])]:
                        use = BlockUse(producer, ports[:position], take, as_old, ports[position + 1 :])
                        uses_by_key[channel, shape].append(use)
        return {key: tuple(uses) for key, uses in uses_by_key.items()}

    @cached_property
    def support_channels(self) -> frozenset[str]:
        """Channels whose old base a task or conversion may need."""
        variants = ((task, variant) for task in self.graph.tasks for variant in task.variants)
        ports = (port for task, variant in variants for port in zip(task.reads, variant.requirements, strict=True))
        read = {channel for channel, requirement in ports if requirement.needs_old_base}
        conversions = ((c.name, k.target_shape) for c in self.graph.channels for k in c.conversions)
        return frozenset(read | {channel for channel, shape in conversions if shape is not BlockShape.BASE})

    @cached_property
    def converters(self) -> Mapping[tuple[str, BlockShape], tuple[tuple[ShapeConversion, BlockProducer], ...]]:
        """The conversions of each channel that use a block of this shape, including as the old base."""
        return {
            (c.name, shape): tuple(
                (k, BlockProducer(c.name, k.name, ((c.name, k.target_shape),)))
                for k in c.conversions
                if shape is BlockShape.BASE or k.can_take(shape)
            )
            for c in self.graph.channels
            for shape in BlockShape
        }

    def list_upstream(self, channel: str) -> tuple[str, ...]:
        """Return the channel and all that it is derived from, in topological order."""
        upstream = {channel}
        for name in reversed(self._ordered_channels):
            if name in upstream and name in self.writer:
                upstream.update(self.writer[name].reads)
        return tuple(c for c in self._ordered_channels if c in upstream)

    def slice_vector(self, vector: Vector, channel: str, offset: int) -> Vector:
        """Return the slice of a derived channel's vector that belongs to `channel`."""
        return vector[offset : offset + len(self.pathways[channel])]

    def build_empty_vector(self, channel: str) -> Vector:
        return ((),) * len(self.pathways[channel])

    @cached_property
    def _ordered_channels(self) -> tuple[str, ...]:
        inputs = [c for c in self.channels if c not in self.writer]
        return (*inputs, *(name for task in self.graph.tasks for name in task.writes))


def _build_pathways(graph: PlanningGraph, writer: Mapping[str, TaskNode]) -> dict[str, tuple[Pathway, ...]]:
    pathways: dict[str, tuple[Pathway, ...]] = {c.name: ((c.name,),) for c in graph.channels if c.name not in writer}
    for task in graph.tasks:
        extended = ((*p, read) if read in writer else p for read in task.reads for p in pathways[read])
        pathways |= dict.fromkeys(task.writes, tuple(extended))
    return pathways


def _find_inputs(pathways: Mapping[str, tuple[Pathway, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the inputs of each channel's pathways; equal tuples are one object."""
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    begins = {channel: tuple(p[0] for p in paths) for channel, paths in pathways.items()}
    return {channel: shared.setdefault(names, names) for channel, names in begins.items()}
