"""Traces a block to its sources and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.model.block import Block, BlockOrigin
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import ChannelRead


@dataclass(frozen=True, slots=True)
class TraceSource:
    """A channel that the block's task read, and the known blocks that were consumed."""

    channel: str
    since: int | None  # None: the full content up to `upto`
    upto: int
    blocks: tuple[Block, ...]
    expired: bool = False  # some of the consumed blocks have expired


@dataclass(frozen=True, slots=True)
class BlockTrace:
    """One block, its sources, and the blocks derived from it."""

    block: Block
    sources: tuple[TraceSource, ...]
    derived: tuple[Block, ...]


def trace_block(catalog: CatalogReader, block: int) -> BlockTrace:
    """Trace one block a step upstream and a step downstream."""
    traced = catalog.blocks.read(block)
    return BlockTrace(traced, find_sources(catalog, traced), _find_made_blocks(catalog, traced))


def find_sources(catalog: CatalogReader, block: Block) -> tuple[TraceSource, ...]:
    """Find the sources of a block, one step upstream."""
    if block.run is None or block.origin is not BlockOrigin.RUN:
        return ()
    readings = [r for r in catalog.runs.list_reads(block.run) if r.task == block.task]
    return tuple(_build_source(catalog, r) for r in readings)


def _build_source(catalog: CatalogReader, reading: ChannelRead) -> TraceSource:
    channel, since, upto = reading.channel, reading.since, reading.upto
    if since is None:
        content = catalog.blocks.read_base_and_deltas(channel, upto)
        return TraceSource(channel, None, upto, tuple(content), expired=_get_last_seq(content, 0) != upto)
    blocks = catalog.blocks.list_visible(channel, since, upto)
    starts = [b.since for b in blocks if b.since is not None]
    linked = {since, *(b.seq for b in blocks)}.issuperset(starts)
    return TraceSource(channel, since, upto, tuple(blocks), expired=not linked or _get_last_seq(blocks, since) != upto)


def _get_last_seq(blocks: Sequence[Block], before: int) -> int:
    return blocks[-1].seq if blocks else before


def _find_made_blocks(catalog: CatalogReader, block: Block) -> tuple[Block, ...]:
    return tuple(
        written
        for reading in catalog.runs.list_block_reads(block.channel, block.seq)
        for written in catalog.blocks.list_written(reading.run)
        if written.task == reading.task
    )
