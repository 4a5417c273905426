"""Where a block came from and went to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.model.block import Block, BlockOrigin
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import ChannelRead


@dataclass(frozen=True, slots=True)
class TraceSource:
    """A channel that the block's task read, and the blocks of it that were consumed, as far as they are known."""

    channel: str
    since: int | None  # None: the whole content up to `upto`
    upto: int
    blocks: tuple[Block, ...]
    forgotten: bool = False  # some of the blocks consumed are not remembered any longer


@dataclass(frozen=True, slots=True)
class BlockTrace:
    """One block: what it was made from, and what was made from it."""

    block: Block
    sources: tuple[TraceSource, ...]
    made: tuple[Block, ...]


def trace_block(catalog: CatalogReader, block: int) -> BlockTrace:
    """Follow one block a step back and a step on."""
    traced = catalog.read_block(block)
    return BlockTrace(traced, find_sources(catalog, traced), _find_made_blocks(catalog, traced))


def find_sources(catalog: CatalogReader, block: Block) -> tuple[TraceSource, ...]:
    """What a block was made from, one step back."""
    if block.run is None or block.origin is not BlockOrigin.RUN:
        return ()
    readings = [r for r in catalog.list_run_reads(block.run) if r.task == block.task]
    return tuple(_build_source(catalog, r) for r in readings)


def _build_source(catalog: CatalogReader, reading: ChannelRead) -> TraceSource:
    channel, since, upto = reading.channel, reading.since, reading.upto
    if since is None:
        whole = catalog.read_base_and_deltas(channel, upto)
        return TraceSource(channel, None, upto, tuple(whole), forgotten=_get_last_seq(whole, 0) != upto)
    blocks = catalog.list_visible_blocks(channel, since, upto)
    starts = [b.since for b in blocks if b.since is not None]
    linked = {since, *(b.seq for b in blocks)}.issuperset(starts)
    return TraceSource(
        channel, since, upto, tuple(blocks), forgotten=not linked or _get_last_seq(blocks, since) != upto
    )


def _get_last_seq(blocks: Sequence[Block], before: int) -> int:
    return blocks[-1].seq if blocks else before


def _find_made_blocks(catalog: CatalogReader, block: Block) -> tuple[Block, ...]:
    return tuple(
        made
        for reading in catalog.list_block_reads(block.channel, block.seq)
        for made in catalog.list_written_blocks(reading.run)
        if made.task == reading.task
    )
