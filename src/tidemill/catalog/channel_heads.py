"""Channel heads: how far each channel can be read.

The head of a channel is its last filled block with no open reservation before it. A transaction that fills or cancels
reservations also moves the head, so that no reader reads past a reservation that may still be filled.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, select, update

from tidemill.catalog.events import EventKind
from tidemill.catalog.queries import BLOCKS, check_known
from tidemill.catalog.rows import AnyRow, to_block, to_head, to_head_values
from tidemill.catalog.tables import IS_RESERVED, RESERVED_STATE, blocks, channels
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.triggers import record_arrival
from tidemill.model.block import Block, BlockKind, BlockState, ChannelPosition, assign_version, link_block
from tidemill.model.channel import ChannelRole
from tidemill.model.evolution import can_read
from tidemill.model.schema import Schema

# Statements of every commit are built once: building them costs more than running them.
_UPDATE_BLOCK = update(blocks).where(blocks.c.id == bindparam("placed"), blocks.c.state == BlockState.FILLED)

_reserved_blocks = blocks.alias()
_is_reserved = (_reserved_blocks.c.channel_id == channels.c.id, _reserved_blocks.c.state == RESERVED_STATE)
_FIRST_RESERVED = select(func.min(_reserved_blocks.c.seq)).where(*_is_reserved).scalar_subquery()
_NEWLY_VISIBLE = BLOCKS.where(
    channels.c.id.in_(bindparam("ids", expanding=True)),
    blocks.c.state == BlockState.FILLED,
    blocks.c.seq > channels.c.head_seq,
    blocks.c.seq < func.coalesce(_FIRST_RESERVED, channels.c.next_seq),
).order_by(blocks.c.seq)


def lock_channels(tx: Transaction, condition: ColumnElement[bool]) -> list[AnyRow]:
    """Lock channels in the order of their ids, so that transactions cannot deadlock; returns their rows."""
    return list(tx.execute(select(channels).where(condition).order_by(channels.c.id).with_for_update()))


def lock_named_channels(tx: Transaction, names: Collection[str]) -> dict[str, AnyRow]:
    locked = {row.name: row for row in lock_channels(tx, channels.c.name.in_(names))}
    check_known(tx.connection, names, locked)
    return locked


def lock_reserved_channels(tx: Transaction, run: int) -> list[AnyRow]:
    """Lock the channels on which a run holds reservations."""
    return lock_channels(tx, channels.c.id.in_(select(blocks.c.channel_id).where(blocks.c.run_id == run, IS_RESERVED)))


def advance_heads(tx: Transaction, locked: Iterable[AnyRow], run: int | None = None) -> None:
    """Move the heads of locked channels as far as possible, and date and link every block that becomes visible."""
    by_id = {channel.id: channel for channel in locked}
    newly_visible = defaultdict(list)
    for row in tx.execute(_NEWLY_VISIBLE, {"ids": list(by_id)}) if by_id else ():
        newly_visible[row.channel_id].append(row)
    for channel_id, rows in newly_visible.items():
        _advance_head(tx, by_id[channel_id], rows, run)


def _advance_head(tx: Transaction, channel: AnyRow, rows: list[AnyRow], run: int | None) -> None:
    position = to_head(channel)
    updates = []
    for row in rows:
        version = tx.tick_clock()
        block = to_block(row)
        if channel.role == ChannelRole.INPUT:
            block = assign_version(position, block, version)
        block = link_block(position, block)
        position = ChannelPosition(block.seq, block.channel_provenance, block.content_identity)
        updates.append(_build_placement(block, version))
    tx.execute(_UPDATE_BLOCK, updates)
    schema = _choose_schema(channel, rows[-1].schema)
    has_known_schema = channel.head_seq and channel.schema is not None and schema is not None
    if has_known_schema and not channel.schema.has_same_shape(schema):
        tx.record_event(EventKind.CHANNEL_SCHEMA, channel.name, run, changed=channel.schema.describe_difference(schema))
    values = to_head_values(position) | {"schema": schema}
    tx.execute(update(channels).where(channels.c.id == channel.id).values(values))
    data_rows = [row for row in rows if row.rows or row.kind == BlockKind.BASE]
    if data_rows:
        record_arrival(tx, channel.name, sum(r.rows for r in data_rows), sum(r.bytes for r in data_rows))
    tx.record_event(EventKind.CHANNEL_ADVANCED, channel.name, run, seq=position.seq, visible=updates[-1]["visible"])


def _choose_schema(channel: AnyRow, newest: Schema | None) -> Schema | None:
    """The schema to read a channel with: the declared one, unless it cannot read the newest block."""
    if newest is None:
        current: Schema | None = channel.schema
        return current
    declared: Schema | None = channel.declared_schema
    return declared if declared is not None and can_read(newest, declared, channel.updates.key) else newest


def _build_placement(block: Block, visible: int) -> dict[str, Any]:
    reached = {"provenance": block.channel_provenance, "content": block.content_identity}
    linked = {"since": block.since, "source": block.source, "target": block.target}
    return {"placed": block.id, "visible": visible, **linked, **reached}
