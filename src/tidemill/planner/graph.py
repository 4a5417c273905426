"""The workflow graph of the planner: channels, the blocks that can be read and written, and bounds.

A channel is an input, or one task writes it. A task is described by its variants; only their signatures matter here:
which shapes of block they read from each channel and which they write.
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
    """The encoding of a block, as far as it decides which variants can read it."""

    BASE = "base"
    STRONG = "strong"  # a delta of signed rows
    MONOTONE = "monotone"  # a strong delta that deletes nothing
    WEAK = "weak"  # a delta in any other encoding: it has the new rows, but not the rows that they replace

    __hash__ = str.__hash__  # that of an enum is several times slower, and shapes are looked up very often


class DataSize(NamedTuple):
    rows: float
    bytes: float

    def __add__(self, other: DataSize) -> DataSize:  # type: ignore[override]
        return DataSize(self.rows + other.rows, self.bytes + other.bytes)


EMPTY = DataSize(0.0, 0.0)


class BlockNode:
    """A block that exists or could be written. A base has no source. Two are equal if they hold the same data.

    Its size is an estimate until it exists, and is set once it is known; nothing else ever changes. The class is not a
    dataclass because a search creates dozens of blocks and looks them up far more often, and a frozen dataclass takes
    three times as long to create.
    """

    __slots__ = ("_hash", "_key", "channel", "shape", "size", "source", "target")

    def __init__(
        self, channel: str, shape: BlockShape, source: Vector | None, target: Vector, size: DataSize = EMPTY
    ) -> None:
        self.channel = channel
        self.shape = shape
        self.source = source
        self.target = target
        self.size = size
        self._key = (target, source, shape, channel)
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlockNode) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        since = "" if self.source is None else f"{self.source}▹"
        return f"{self.shape} of {self.channel} {since}{self.target}"


@dataclass(frozen=True, slots=True)
class PortRequirement:
    """The block that a variant reads from one of its channels."""

    shape: BlockShape | None  # None: no block, and its output reflects nothing of the channel
    needs_old_base: bool = False  # together with the base that the delta starts from
    unmoved: bool = False  # only an empty delta: the reader stays where it is

    def can_take(self, shape: BlockShape) -> bool:
        return shape is self.shape or (shape is BlockShape.MONOTONE and self.shape is BlockShape.STRONG)

    def can_use(self, block: BlockNode) -> bool:
        return self.can_take(block.shape) and (not self.unmoved or block.source == block.target)


NOTHING = PortRequirement(None)


@dataclass(frozen=True, slots=True)
class VariantNode:
    """One variant of a task."""

    name: str
    requirements: tuple[PortRequirement, ...]  # for each channel that the task reads
    output_shapes: tuple[BlockShape, ...]  # for each channel that the task writes
    strict: bool = False  # its inputs must be consistent, regardless of the channel's own bound


@dataclass(frozen=True, slots=True)
class TaskNode:
    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    variants: tuple[VariantNode, ...]


@dataclass(frozen=True, slots=True)
class ShapeConversion:
    """Converts a block of one shape to another, on the same channel, using an old base."""

    source_shape: BlockShape
    target_shape: BlockShape

    @property
    def name(self) -> str:
        return f"{self.source_shape} to {self.target_shape}"

    def can_take(self, shape: BlockShape) -> bool:
        return shape is self.source_shape or (shape is BlockShape.MONOTONE and self.source_shape is BlockShape.STRONG)


APPLY = ShapeConversion(BlockShape.STRONG, BlockShape.BASE)
APPLY_WEAK = ShapeConversion(BlockShape.WEAK, BlockShape.BASE)
STRENGTHEN = ShapeConversion(BlockShape.WEAK, BlockShape.STRONG)
DIFFERENCE = ShapeConversion(BlockShape.BASE, BlockShape.STRONG)


@dataclass(frozen=True, slots=True)
class ChannelBounds:
    """The freshness target of a channel, in units of versions.

    The staleness of a pathway is the time since its oldest version ended; it is at most `staleness`. Content is
    inconsistent if its newest version began after its oldest ended: by less than `inconsistency`, where 0 means not at
    all.
    """

    staleness: Mapping[Pathway, Version] = field(default_factory=dict)
    inconsistency: Version | None = None  # None: any


@dataclass(frozen=True, slots=True)
class ChannelNode:
    name: str
    bounds: ChannelBounds = ChannelBounds()
    accepts: frozenset[BlockShape] = frozenset()  # shapes for external readers; empty: there are none
    conversions: tuple[ShapeConversion, ...] = ()

    def is_accepted(self, shape: BlockShape) -> bool:
        return shape in self.accepts or (shape is BlockShape.MONOTONE and BlockShape.STRONG in self.accepts)


@dataclass(frozen=True, slots=True)
class PlanningGraph:
    """A workflow. Tasks are in topological order."""

    channels: tuple[ChannelNode, ...]
    tasks: tuple[TaskNode, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.channels if c.accepts)
