"""Blocks: immutable data plus a description, and the content of a channel after each block.

Guarantees. A block never changes once filled. A *base* at sequence number n is the full content of its
channel at n. A *delta* `since -> seq` turns the content at `since` into the content at `seq`; filled reservations
link up without a gap (each delta's `since` is the sequence number of the filled reservation before it), regardless of
reservations that were cancelled in between.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from tidemill.errors import BadInput
from tidemill.model.change import Append, Updates
from tidemill.model.identity import EMPTY_IDENTITY, Identity, compute_identity
from tidemill.model.provenance import EMPTY_PROVENANCE, Provenance, apply_delta
from tidemill.model.schema import Schema
from tidemill.model.time import Version


class BlockKind(StrEnum):
    BASE = "base"
    DELTA = "delta"


def parse_block_kind(name: str) -> BlockKind:
    """The kind with this name; `BadInput` if there is none.

    >>> parse_block_kind("base")
    <BlockKind.BASE: 'base'>
    """
    if name not in list(BlockKind):
        raise BadInput(f"a block is a 'base' (the full content) or a 'delta' (a change to it), not {name!r}")
    return BlockKind(name)


class BlockOrigin(StrEnum):
    """The operation that created a block."""

    FIRST = "first"  # the empty base with which every channel starts
    INSERT = "insert"
    RUN = "run"
    COMPACTION = "compaction"


class BlockState(StrEnum):
    RESERVED = "reserved"  # a run holds the reservation
    FILLED = "filled"
    CANCELLED = "cancelled"  # the run failed; the reservation has no effect
    COLLECTED = "collected"  # garbage-collected: the files are deleted, the description stays for tracing


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file of a block."""

    path: str  # relative to the block store's root
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Block:
    """A block's description. `source` and `target` are the provenance before and after the block."""

    id: int
    channel: str
    seq: int
    kind: BlockKind
    schema: Schema
    since: int | None = None  # deltas only
    updates: Updates = Append()  # how a delta merges
    files: tuple[DataFile, ...] = ()
    source: Provenance = EMPTY_PROVENANCE  # deltas only
    target: Provenance = EMPTY_PROVENANCE
    identity: Identity = EMPTY_IDENTITY
    origin: BlockOrigin = BlockOrigin.RUN
    state: BlockState = BlockState.FILLED
    run: int | None = None
    task: str | None = None
    version: Version | None = None  # input channels only: when it became visible
    channel_provenance: Provenance = EMPTY_PROVENANCE  # the channel's provenance at `seq`
    content_identity: Identity = EMPTY_IDENTITY  # identity of the channel's content at `seq`
    watermark: Version | None = None  # event time up to which the content is complete at `seq`; None: unknown
    pinned: bool = False  # it and its inputs are retained until a user unpins it

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.files)

    @property
    def bytes(self) -> int:
        return sum(f.bytes for f in self.files)


@dataclass(frozen=True, slots=True)
class ChannelPosition:
    """A readable point of a channel: everything up to `seq`, its provenance, and its identity."""

    seq: int = 0
    provenance: Provenance = EMPTY_PROVENANCE
    content_identity: Identity = EMPTY_IDENTITY


INITIAL_POSITION = ChannelPosition()


def advance_position(position: ChannelPosition, block: Block) -> ChannelPosition:
    """The position after `block`, which follows `position` on its channel."""
    if block.kind is BlockKind.BASE:
        return ChannelPosition(block.seq, block.target, block.identity)
    reached = apply_delta(position.provenance, block.source, block.target)
    return ChannelPosition(block.seq, reached, compute_identity(position.content_identity, block.identity))


def assign_version(position: ChannelPosition, block: Block, version: Version) -> Block:
    """The inserted block with its version: it becomes visible as `version` of its input channel, after `position`."""
    target = Provenance.from_pathways({(block.channel,): [version]})
    return replace(block, version=version, source=position.provenance, target=target)


def link_block(position: ChannelPosition, block: Block) -> Block:
    """Link a filled block to the one before it and record the channel's state once the block is visible."""
    after = advance_position(position, block)
    since = position.seq if block.kind is BlockKind.DELTA else None
    return replace(block, since=since, channel_provenance=after.provenance, content_identity=after.content_identity)
