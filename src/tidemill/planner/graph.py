"""A workflow as the planner sees it: channels, what may be read of them and made on them, and what was promised.

A channel is fed from outside, or by the one task that writes it. What a task does stands in its variants; only their
forms matter here: which shapes of block they take from each channel and which they make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from tidemill.model.provenance import Pathway
from tidemill.model.time import Version
from tidemill.planner.vector import Vector


class BlockShape(StrEnum):
    """How a block holds its data, as far as it decides who can read it."""

    BASE = "base"
    STRONG = "strong"  # a delta of signed rows
    MONOTONE = "monotone"  # a strong delta that deletes nothing
    WEAK = "weak"  # a delta in any other encoding: it says what is new, not what it takes the place of

    __hash__ = str.__hash__  # an enum's own is several times slower, and shapes are looked up all the time


class DataSize(NamedTuple):
    rows: float
    bytes: float

    def __add__(self, other: DataSize) -> DataSize:  # type: ignore[override]
        return DataSize(self.rows + other.rows, self.bytes + other.bytes)


EMPTY = DataSize(0.0, 0.0)


class BlockNode:
    """A block that exists or could be made. A base has no source. Two are the same if they hold the same data.

    Its size is an estimate until it exists, and filled in once it is known; nothing else ever changes. The class is
    written out because a search makes dozens of blocks and looks them up far more often, and a frozen dataclass takes
    three times as long to make.
    """

    __slots__ = ("_hash", "channel", "shape", "size", "source", "target")

    def __init__(
        self, channel: str, shape: BlockShape, source: Vector | None, target: Vector, size: DataSize = EMPTY
    ) -> None:
        self.channel = channel
        self.shape = shape
        self.source = source
        self.target = target
        self.size = size
        self._hash = hash((channel, shape, source, target))

    def resize_block(self, size: DataSize) -> BlockNode:
        return BlockNode(self.channel, self.shape, self.source, self.target, size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlockNode) and (self.target, self.source, self.shape, self.channel) == (
            other.target,
            other.source,
            other.shape,
            other.channel,
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        since = "" if self.source is None else f"{self.source}▹"
        return f"{self.shape} of {self.channel} {since}{self.target}"


@dataclass(frozen=True, slots=True)
class PortRequirement:
    """What a variant takes from one of its channels."""

    shape: BlockShape | None  # None: nothing, and what it makes reflects nothing of the channel
    old: bool = False  # together with the base that the delta starts from

    def can_take(self, shape: BlockShape) -> bool:
        return shape is self.shape or (shape is BlockShape.MONOTONE and self.shape is BlockShape.STRONG)


NOTHING = PortRequirement(None)


@dataclass(frozen=True, slots=True)
class VariantNode:
    """One way to run a task."""

    name: str
    takes: tuple[PortRequirement, ...]  # for each channel that the task reads
    makes: tuple[BlockShape, ...]  # for each channel that the task writes
    strict: bool = False  # must what it takes be consistent, whatever the channel's own bound allows?


@dataclass(frozen=True, slots=True)
class TaskNode:
    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    variants: tuple[VariantNode, ...]


@dataclass(frozen=True, slots=True)
class ShapeConversion:
    """A block of one shape made into another, on the same channel, with the help of an old base."""

    takes: BlockShape
    makes: BlockShape

    @property
    def name(self) -> str:
        return f"{self.takes} to {self.makes}"

    def can_take(self, shape: BlockShape) -> bool:
        return shape is self.takes or (shape is BlockShape.MONOTONE and self.takes is BlockShape.STRONG)


APPLY = ShapeConversion(BlockShape.STRONG, BlockShape.BASE)
APPLY_WEAK = ShapeConversion(BlockShape.WEAK, BlockShape.BASE)
STRENGTHEN = ShapeConversion(BlockShape.WEAK, BlockShape.STRONG)
DIFFERENCE = ShapeConversion(BlockShape.BASE, BlockShape.STRONG)


@dataclass(frozen=True, slots=True)
class ChannelBounds:
    """What is promised of a channel, in units of versions.

    A pathway is stale by how long ago its oldest version ended, and may be so by at most `staleness`. Content is
    inconsistent if its newest version began after its oldest ended: by less than `inconsistency`, 0 being not at all.
    """

    staleness: Mapping[Pathway, Version] = field(default_factory=dict)
    inconsistency: Version | None = None  # None: any


@dataclass(frozen=True, slots=True)
class ChannelNode:
    name: str
    bounds: ChannelBounds = ChannelBounds()
    accepts: frozenset[BlockShape] = frozenset()  # by those who read it from outside; empty: nobody does
    conversions: tuple[ShapeConversion, ...] = ()

    def is_accepted(self, shape: BlockShape) -> bool:
        return shape in self.accepts or (shape is BlockShape.MONOTONE and BlockShape.STRONG in self.accepts)


@dataclass(frozen=True, slots=True)
class PlanningGraph:
    """A workflow. Tasks come after those whose channels they read."""

    channels: tuple[ChannelNode, ...]
    tasks: tuple[TaskNode, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.channels if c.accepts)
