"""Merge costs: seconds that a channel's readers spent merging since its newest base, and the cost of a new base."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, insert, select, update

from tidemill.catalog.queries import read_channel_ids
from tidemill.catalog.tables import channel_merge_costs, channels
from tidemill.catalog.transaction import Transaction
from tidemill.model.codec import Json
from tidemill.ports.records import ChannelMergeCost

_NO_COST = {"reads": 0, "seconds": 0.0}


def list_merge_costs(connection: Connection, min_seconds: float) -> list[ChannelMergeCost]:
    query = (
        select(channel_merge_costs, channels.c.name)
        .join_from(channel_merge_costs, channels)
        .where(channel_merge_costs.c.seconds >= min_seconds)
    )
    rows = connection.execute(query.order_by(channels.c.name))
    return [ChannelMergeCost(row.name, row.reads, row.seconds, row.rewrite_cost, row.interactive_reads) for row in rows]


def record_merge_costs(tx: Transaction, seconds_by_channel: Mapping[str, float], *, is_interactive: bool) -> None:
    """Record one read of each channel with its seconds of merging, in the order of ids, as channels are locked.

    `is_interactive`: the read was interactive and not by a run.
    """
    ids = read_channel_ids(tx.connection, seconds_by_channel) if seconds_by_channel else {}
    for name in sorted(seconds_by_channel, key=ids.__getitem__):
        values = {
            "reads": int(seconds_by_channel[name] > 0),
            "seconds": seconds_by_channel[name],
            "interactive_reads": int(is_interactive),
        }
        _upsert_costs(
            tx, ids[name], {column: channel_merge_costs.c[column] + amount for column, amount in values.items()}, values
        )


def reset_merge_costs(tx: Transaction, channel_ids: Collection[int]) -> None:
    """Reset the costs of channels that have a new base."""
    for channel in sorted(channel_ids):
        tx.connection.execute(
            update(channel_merge_costs).where(channel_merge_costs.c.channel_id == channel).values(_NO_COST)
        )


def record_rewrite_cost(tx: Transaction, channel_id: int, rewrite_cost: Json) -> None:
    _upsert_costs(
        tx,
        channel_id,
        {"rewrite_cost": rewrite_cost},
        _NO_COST | {"interactive_reads": 0, "rewrite_cost": rewrite_cost},
    )


def _upsert_costs(tx: Transaction, channel_id: int, change: Mapping[str, Any], first: Mapping[str, Any]) -> None:
    if not tx.connection.execute(
        update(channel_merge_costs).where(channel_merge_costs.c.channel_id == channel_id).values(change)
    ).rowcount:
        tx.connection.execute(insert(channel_merge_costs).values({"channel_id": channel_id, **first}))
