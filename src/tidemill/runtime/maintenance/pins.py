"""Pins on blocks: a block stays readable, with all that it was made from, back to what was inserted."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.errors import Collected
from tidemill.model.block import Block, BlockState
from tidemill.model.view import build_snapshot, list_blocks
from tidemill.ports.catalog import CatalogReader, CatalogWriter
from tidemill.runtime.inspect.block_trace import find_sources


def pin_block(catalog: CatalogWriter, block: int) -> set[int]:
    """Keep a block from being collected; returns all blocks that are held for it."""
    held = find_held_blocks(catalog, catalog.read_block(block))
    catalog.pin_block(block, held | {block})
    return held


def find_held_blocks(catalog: CatalogReader, block: Block) -> set[int]:
    """Of all blocks that tracing leads back to, those that are there; and what their channels are read from there.

    So the content at the block can be read, and the contents that its run read, and those that were read for these.
    """
    seen, next_ = {block.id}, [block]
    held = _find_readable_blocks(catalog, block.channel, block.seq)
    while next_:
        known = next_.pop()
        held |= {known.id} if known.state is BlockState.FILLED else set()
        for source in find_sources(catalog, known):
            held |= {
                kept
                for at in _list_ends(source.since, source.upto)
                for kept in _find_readable_blocks(catalog, source.channel, at)
            }
            next_ += (b for b in source.blocks if b.id not in seen)
            seen |= {b.id for b in source.blocks}
    return held


def _list_ends(since: int | None, upto: int) -> Iterator[int]:
    yield upto
    if since is not None:
        yield since


def _find_readable_blocks(catalog: CatalogReader, channel: str, at: int) -> set[int]:
    """What the content of a channel is read from; nothing if it was collected."""
    blocks = catalog.read_base_and_deltas(channel, at)
    try:
        return {b.id for b in list_blocks(build_snapshot(channel, blocks[0].schema, blocks, at))} if blocks else set()
    except Collected:
        return set()
