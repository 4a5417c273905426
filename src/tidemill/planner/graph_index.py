"""What follows from a graph alone, worked out once: pathways and where each channel's stand in those after it.

Reading several channels concatenates their pathways, so the part of a channel in whatever is derived from it is a
slice: `Part(channel, offset)` says where it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tidemill.model.provenance import Pathway
from tidemill.planner.graph import Channel, Conversion, Graph, Shape, Take, Task, Variant
from tidemill.planner.vector import Vector


@dataclass(frozen=True, slots=True)
class Part:
    """Where a channel's pathways begin among those of a channel derived from it."""

    channel: str
    offset: int


@dataclass(frozen=True, slots=True)
class Maker:
    """A variant of a task, or a conversion on a channel, and the shapes that it makes on the channels it writes."""

    task: str
    variant: str
    writes: tuple[tuple[str, Shape], ...]
    strict: bool = False


Port = tuple[str, Take]
"""A channel that is read, and what is taken from it."""


@dataclass(frozen=True, slots=True)
class Use:
    """A variant that can take a block of some shape from one of its channels; what it takes before and after that."""

    maker: Maker
    before: tuple[Port, ...]
    take: Take
    as_old: bool  # as the base that its delta starts from
    after: tuple[Port, ...]


class Layout:
    """A graph, and what follows from it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.channels: Mapping[str, Channel] = {c.name: c for c in graph.channels}
        self.writer: Mapping[str, Task] = {name: task for task in graph.tasks for name in task.writes}
        self.pathways: Mapping[str, tuple[Pathway, ...]] = _pathways(graph, self.writer)
        self._upstream: dict[str, tuple[str, ...]] = {}
        self.inputs: Mapping[str, tuple[str, ...]] = _inputs(self.pathways)

    @cached_property
    def children(self) -> Mapping[str, tuple[Part, ...]]:
        """For each channel, the channels made directly from it."""
        found: dict[str, list[Part]] = {c: [] for c in self.channels}
        for task in self.graph.tasks:
            for read, offset in self._offsets(task):
                found[read] += (Part(name, offset) for name in task.writes)
        return {c: tuple(parts) for c, parts in found.items()}

    @cached_property
    def routes(self) -> Mapping[str, tuple[Part, ...]]:
        """For each channel, every route to an output: the output, and where the channel's pathways end up in it."""
        found: dict[str, tuple[Part, ...]] = {}
        for channel in reversed(self._in_order):
            own = (Part(channel, 0),) if self.channels[channel].accepts else ()
            onward = (Part(r.channel, r.offset + c.offset) for c in self.children[channel] for r in found[c.channel])
            found[channel] = (*own, *onward)
        return found

    @cached_property
    def uses(self) -> Mapping[tuple[str, Shape], tuple[Use, ...]]:
        """Who can take a block of this shape from this channel."""
        found: dict[tuple[str, Shape], list[Use]] = {(c, s): [] for c in self.channels for s in Shape}
        for task in self.graph.tasks:
            for variant in task.variants:
                maker = _maker(task, variant)
                ports = tuple(zip(task.reads, variant.takes, strict=True))
                for at, (channel, take) in enumerate(ports):
                    for shape, as_old in _taken(take):
                        found[channel, shape].append(Use(maker, ports[:at], take, as_old, ports[at + 1 :]))
        return {key: tuple(uses) for key, uses in found.items()}

    @cached_property
    def supported(self) -> frozenset[str]:
        """Channels of which somebody may need a base as it was before."""
        read = {c for t in self.graph.tasks for v in t.variants for c, k in zip(t.reads, v.takes, strict=True) if k.old}
        made = {c.name for c in self.graph.channels for k in c.conversions if k.makes is not Shape.BASE}
        return frozenset(read | made)

    @cached_property
    def converters(self) -> Mapping[tuple[str, Shape], tuple[tuple[Conversion, Maker], ...]]:
        """The conversions of each channel in which a block of this shape takes part, if only as the old base."""
        return {
            (c.name, shape): tuple(
                (k, Maker(c.name, k.name, ((c.name, k.makes),)))
                for k in c.conversions
                if shape is Shape.BASE or k.fits(shape)
            )
            for c in self.graph.channels
            for shape in Shape
        }

    def upstream(self, channel: str) -> tuple[str, ...]:
        """The channel and all that it is derived from, what is derived last."""
        if channel not in self._upstream:
            self._upstream[channel] = self._found_upstream(channel)
        return self._upstream[channel]

    def _found_upstream(self, channel: str) -> tuple[str, ...]:
        wanted = {channel}
        for name in reversed(self._in_order):
            if name in wanted and name in self.writer:
                wanted.update(self.writer[name].reads)
        return tuple(c for c in self._in_order if c in wanted)

    def part(self, vector: Vector, channel: str, offset: int) -> Vector:
        """The slice of a derived channel's vector that is `channel`'s own."""
        return vector[offset : offset + len(self.pathways[channel])]

    def nothing(self, channel: str) -> Vector:
        return ((),) * len(self.pathways[channel])

    @cached_property
    def _in_order(self) -> tuple[str, ...]:
        fed = [c for c in self.channels if c not in self.writer]
        return (*fed, *(name for task in self.graph.tasks for name in task.writes))

    def _offsets(self, task: Task) -> Iterator[tuple[str, int]]:
        offset = 0
        for read in task.reads:
            yield read, offset
            offset += len(self.pathways[read])


def _pathways(graph: Graph, writer: Mapping[str, Task]) -> dict[str, tuple[Pathway, ...]]:
    found: dict[str, tuple[Pathway, ...]] = {c.name: ((c.name,),) for c in graph.channels if c.name not in writer}
    for task in graph.tasks:
        seen = tuple(p for read in task.reads for p in _through(read, found[read], read in writer))
        found |= dict.fromkeys(task.writes, seen)
    return found


def _inputs(pathways: Mapping[str, tuple[Pathway, ...]]) -> dict[str, tuple[str, ...]]:
    """Where the pathways of each channel begin; one object for all channels for which that is the same."""
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    begins = {channel: tuple(p[0] for p in paths) for channel, paths in pathways.items()}
    return {channel: shared.setdefault(names, names) for channel, names in begins.items()}


def _through(channel: str, pathways: tuple[Pathway, ...], derived: bool) -> tuple[Pathway, ...]:
    return tuple((*p, channel) for p in pathways) if derived else pathways


def _maker(task: Task, variant: Variant) -> Maker:
    return Maker(task.name, variant.name, tuple(zip(task.writes, variant.makes, strict=True)), variant.strict)


def _taken(take: Take) -> Iterator[tuple[Shape, bool]]:
    yield from ((shape, False) for shape in Shape if take.fits(shape))
    if take.old:
        yield Shape.BASE, True
