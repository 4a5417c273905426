"""Where a block came from and went to."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.model.block import Block, Origin
from tidemill.ports import CatalogReader, Reading


@dataclass(frozen=True, slots=True)
class Source:
    """A channel that the block's task read, and the blocks of it that were consumed."""

    channel: str
    since: int | None  # None: the whole content up to `upto`
    upto: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """One block: what it was made from, and what was made from it."""

    block: Block
    sources: tuple[Source, ...]
    made: tuple[Block, ...]


def trace(catalog: CatalogReader, block: int) -> Trace:
    """Follow one block a step back and a step on."""
    traced = catalog.block(block)
    return Trace(traced, _sources(catalog, traced), _made(catalog, traced))


def _sources(catalog: CatalogReader, block: Block) -> tuple[Source, ...]:
    if block.run is None or block.origin is not Origin.RUN:
        return ()
    readings = [r for r in catalog.readings(block.run) if r.task == block.task]
    return tuple(_source(catalog, r) for r in readings)


def _source(catalog: CatalogReader, reading: Reading) -> Source:
    if reading.since is None:
        blocks = catalog.base_and_after(reading.channel, reading.upto)
    else:
        blocks = catalog.deltas(reading.channel, reading.since, reading.upto)
    return Source(reading.channel, reading.since, reading.upto, tuple(blocks))


def _made(catalog: CatalogReader, block: Block) -> tuple[Block, ...]:
    return tuple(
        made
        for reading in catalog.readers(block.channel, block.seq)
        for made in catalog.written(reading.run)
        if made.task == reading.task
    )
