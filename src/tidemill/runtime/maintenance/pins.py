"""Pins: a pinned block stays readable, with all blocks that it derives from, back to the inserted ones."""

from tidemill.errors import GarbageCollected
from tidemill.model.block import Block, BlockState
from tidemill.model.view import build_snapshot, list_blocks
from tidemill.ports.catalog import BlockQueries, Catalog, CatalogReader
from tidemill.runtime.inspect.block_trace import find_sources


def pin_block(catalog: Catalog, block: int) -> set[int]:
    """Pin a block, so that it is not garbage-collected; returns all blocks that are retained for it."""
    retained = find_held_blocks(catalog, catalog.blocks.read(block))
    catalog.blocks.pin(block, retained | {block})
    return retained


def find_held_blocks(catalog: CatalogReader, block: Block) -> set[int]:
    """Find the blocks that a pin retains: the lineage of the block, and the blocks from which its contents are read.

    So the content at the block can be read, and the contents that its run read, and recursively theirs.
    """
    seen, pending = {block.id}, [block]
    retained = _find_readable_blocks(catalog.blocks, block.channel, block.seq)
    while pending:
        current = pending.pop()
        retained |= {current.id} if current.state is BlockState.FILLED else set()
        for source in find_sources(catalog, current):
            for position in {source.upto, source.upto if source.since is None else source.since}:
                retained |= _find_readable_blocks(catalog.blocks, source.channel, position)
            pending += (b for b in source.blocks if b.id not in seen)
            seen |= {b.id for b in source.blocks}
    return retained


def _find_readable_blocks(blocks: BlockQueries, channel: str, position: int) -> set[int]:
    """Find the blocks from which a channel's content is read; none if it was garbage-collected."""
    readable = blocks.read_base_and_deltas(channel, position)
    if not readable:
        return set()
    try:
        return {b.id for b in list_blocks(build_snapshot(channel, readable[0].schema, readable, position))}
    except GarbageCollected:
        return set()
