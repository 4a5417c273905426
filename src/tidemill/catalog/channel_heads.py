"""Heads: how far each channel can be read.

The head of a channel is its last filled slot with no reserved slot before it. Whoever fills or cancels slots
moves the head in the same transaction, so no reader ever reads across a slot that may still be filled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, select, update

from tidemill.catalog import triggers
from tidemill.catalog.events import EventKind
from tidemill.catalog.queries import BLOCKS, check_known
from tidemill.catalog.rows import AnyRow, to_block, to_head, to_head_values
from tidemill.catalog.tables import IS_RESERVED, RESERVED, blocks, channels
from tidemill.catalog.transaction import Transaction
from tidemill.model.block import Block, BlockKind, BlockState, ChannelPosition, assign_version, link_block
from tidemill.model.channel import ChannelRole
from tidemill.model.evolution import can_read
from tidemill.model.schema import Schema

# Statements of every commit are built once: building them costs more than running them.
_PLACE = update(blocks).where(blocks.c.id == bindparam("placed"), blocks.c.state == BlockState.FILLED)

_held = blocks.alias()
_BARRIER = (  # the first reserved slot of a channel
    select(func.min(_held.c.seq)).where(_held.c.channel_id == channels.c.id, _held.c.state == RESERVED)
).scalar_subquery()
_PASSABLE = BLOCKS.where(
    channels.c.id.in_(bindparam("ids", expanding=True)),
    blocks.c.state == BlockState.FILLED,
    blocks.c.seq > channels.c.head_seq,
    blocks.c.seq < func.coalesce(_BARRIER, channels.c.next_seq),
).order_by(blocks.c.seq)


def lock_channels(tx: Transaction, which: ColumnElement[bool]) -> list[AnyRow]:
    """Lock channels, always by id, so that no two transactions wait for each other; returns their rows."""
    return list(tx.connection.execute(select(channels).where(which).order_by(channels.c.id).with_for_update()))


def lock_named_channels(tx: Transaction, names: Collection[str]) -> dict[str, AnyRow]:
    held = {row.name: row for row in lock_channels(tx, channels.c.name.in_(names))}
    check_known(tx.connection, names, held)
    return held


def lock_reserved_channels(tx: Transaction, run: int) -> list[AnyRow]:
    """Lock the channels on which a run holds slots."""
    return lock_channels(tx, channels.c.id.in_(select(blocks.c.channel_id).where(blocks.c.run_id == run, IS_RESERVED)))


def advance_heads(tx: Transaction, held: Iterable[AnyRow], run: int | None = None) -> None:
    """Move the heads of held channels as far as they go, dating and placing every block they pass.

    `run` is the one that filled or cancelled slots.
    """
    by_id = {row.id: row for row in held}
    passed = defaultdict(list)
    for slot in tx.connection.execute(_PASSABLE, {"ids": list(by_id)}) if by_id else ():
        passed[slot.channel_id].append(slot)
    for channel, slots in passed.items():
        _advance_head(tx, by_id[channel], slots, run)


def _advance_head(tx: Transaction, channel: AnyRow, slots: list[AnyRow], run: int | None) -> None:
    position = to_head(channel)
    placed = []
    for slot in slots:
        visible = tx.tick_clock()
        block = to_block(slot)
        block = link_block(
            position, assign_version(position, block, visible) if channel.role == ChannelRole.INPUT else block
        )
        position = ChannelPosition(block.seq, block.reached, block.content)
        placed.append(_build_placement(block, visible))
    tx.connection.execute(_PLACE, placed)
    schema = _choose_schema(channel, slots[-1].schema)
    known = channel.head_seq and channel.schema is not None and schema is not None
    if known and not channel.schema.has_same_shape(schema):
        tx.record_event(EventKind.CHANNEL_SCHEMA, channel.name, run, changed=channel.schema.describe_difference(schema))
    values = to_head_values(position) | {"schema": schema}
    tx.connection.execute(update(channels).where(channels.c.id == channel.id).values(values))
    telling = [slot for slot in slots if slot.rows or slot.kind == BlockKind.BASE]
    if telling:
        triggers.record_arrival(tx, channel.name, sum(s.rows for s in telling), sum(s.bytes for s in telling))
    tx.record_event(EventKind.CHANNEL_ADVANCED, channel.name, run, seq=position.seq, visible=placed[-1]["visible"])


def _choose_schema(channel: AnyRow, newest: Schema | None) -> Schema | None:
    """With which a channel is read: as declared, unless its newest block, of a schema before, could not be."""
    if newest is None:
        found: Schema | None = channel.schema
        return found
    declared: Schema | None = channel.declared
    return declared if declared is not None and can_read(newest, declared, channel.updates.key) else newest


def _build_placement(block: Block, visible: int) -> dict[str, Any]:
    return {
        "placed": block.id,
        "visible": visible,
        "since": block.since,
        "source": block.source,
        "target": block.target,
        "reached": block.reached,
        "content": block.content,
    }
