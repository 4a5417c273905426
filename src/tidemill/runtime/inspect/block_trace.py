"""Where a block came from and went to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.model.block import Block, Origin
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import Reading


@dataclass(frozen=True, slots=True)
class Source:
    """A channel that the block's task read, and the blocks of it that were consumed, as far as they are known."""

    channel: str
    since: int | None  # None: the whole content up to `upto`
    upto: int
    blocks: tuple[Block, ...]
    forgotten: bool = False  # some of the blocks consumed are not remembered any longer


@dataclass(frozen=True, slots=True)
class Trace:
    """One block: what it was made from, and what was made from it."""

    block: Block
    sources: tuple[Source, ...]
    made: tuple[Block, ...]


def trace(catalog: CatalogReader, block: int) -> Trace:
    """Follow one block a step back and a step on."""
    traced = catalog.block(block)
    return Trace(traced, sources(catalog, traced), _made(catalog, traced))


def sources(catalog: CatalogReader, block: Block) -> tuple[Source, ...]:
    """What a block was made from, one step back."""
    if block.run is None or block.origin is not Origin.RUN:
        return ()
    readings = [r for r in catalog.readings(block.run) if r.task == block.task]
    return tuple(_source(catalog, r) for r in readings)


def _source(catalog: CatalogReader, reading: Reading) -> Source:
    channel, since, upto = reading.channel, reading.since, reading.upto
    if since is None:
        whole = catalog.base_and_after(channel, upto)
        return Source(channel, None, upto, tuple(whole), forgotten=_last(whole, 0) != upto)
    blocks = catalog.slots(channel, since, upto)
    starts = [b.since for b in blocks if b.since is not None]
    linked = {since, *(b.seq for b in blocks)}.issuperset(starts)
    return Source(channel, since, upto, tuple(blocks), forgotten=not linked or _last(blocks, since) != upto)


def _last(blocks: Sequence[Block], before: int) -> int:
    return blocks[-1].seq if blocks else before


def _made(catalog: CatalogReader, block: Block) -> tuple[Block, ...]:
    return tuple(
        made
        for reading in catalog.readers(block.channel, block.seq)
        for made in catalog.written(reading.run)
        if made.task == reading.task
    )
