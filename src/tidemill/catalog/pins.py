"""Pinned blocks, and the blocks that each pin excludes from garbage collection."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, Select, delete, insert, select, update

from tidemill.catalog.events import EventKind
from tidemill.catalog.garbage_collection import lock_block_channels, split_ids
from tidemill.catalog.queries import read_block
from tidemill.catalog.tables import blocks, channels, pin_holds
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict
from tidemill.model.block import BlockState


def pin_block(tx: Transaction, block: int, block_ids: Collection[int]) -> None:
    """Pin `block`, and with it the blocks `block_ids`, among them itself.

    All must be filled; their channels are locked.
    """
    batches = split_ids(block_ids)
    lock_block_channels(tx, batches)
    filled = {block_id for batch in batches for block_id in tx.connection.execute(_select_filled(batch)).scalars()}
    if block not in filled:
        raise Conflict(f"block {block} is {read_block(tx.connection, block).state}; only filled blocks can be pinned")
    if filled != set(block_ids):
        raise Conflict(f"some inputs of block {block} were garbage-collected meanwhile; pin it again")
    tx.connection.execute(delete(pin_holds).where(pin_holds.c.pin == block))
    tx.connection.execute(insert(pin_holds), [{"pin": block, "block_id": block_id} for block_id in sorted(block_ids)])
    _set_pinned(tx, block, EventKind.BLOCK_PINNED, pinned=True)


def unpin_block(tx: Transaction, block: int) -> None:
    tx.connection.execute(delete(pin_holds).where(pin_holds.c.pin == block))
    _set_pinned(tx, block, EventKind.BLOCK_UNPINNED, pinned=False)


def list_pinned_blocks(connection: Connection, channel: str) -> set[int]:
    """Blocks of a channel that pins exclude from garbage collection."""
    joined = (
        select(pin_holds.c.block_id).join_from(pin_holds, blocks, blocks.c.id == pin_holds.c.block_id).join(channels)
    )
    return set(connection.execute(joined.where(channels.c.name == channel)).scalars())


def _set_pinned(tx: Transaction, block: int, kind: EventKind, *, pinned: bool) -> None:
    before = read_block(tx.connection, block)
    if before.pinned != pinned:
        tx.connection.execute(update(blocks).where(blocks.c.id == block).values(pinned=pinned))
        tx.record_event(kind, before.channel, before.run, block=block, seq=before.seq)


def _select_filled(ids: list[int]) -> Select[int]:
    return select(blocks.c.id).where(blocks.c.id.in_(ids), blocks.c.state == BlockState.FILLED)
