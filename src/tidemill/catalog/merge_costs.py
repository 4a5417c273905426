"""Merge costs: seconds that a channel's readers spent merging since its newest base, and the cost of a new base."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, insert, select, update

from tidemill.catalog.queries import read_channel_ids
from tidemill.catalog.tables import channels, merging
from tidemill.catalog.transaction import Transaction
from tidemill.model.codec import Json
from tidemill.ports.records import ChannelMergeCost

_NO_COST = {"reads": 0, "paid": 0.0}


def list_merge_costs(connection: Connection, paid: float) -> list[ChannelMergeCost]:
    query = select(merging, channels.c.name).join_from(merging, channels).where(merging.c.paid >= paid)
    rows = connection.execute(query.order_by(channels.c.name))
    return [ChannelMergeCost(row.name, row.reads, row.paid, row.rewriting, row.asked) for row in rows]


def record_merge_costs(tx: Transaction, paid: Mapping[str, float], *, asked: bool) -> None:
    """Record one read of each channel with its seconds of merging, in the order of ids, as channels are locked.

    `asked`: the read was interactive and not by a run.
    """
    ids = read_channel_ids(tx.connection, paid) if paid else {}
    for name in sorted(paid, key=ids.__getitem__):
        values = {"reads": int(paid[name] > 0), "paid": paid[name], "asked": int(asked)}
        _upsert_costs(tx, ids[name], {column: merging.c[column] + amount for column, amount in values.items()}, values)


def reset_merge_costs(tx: Transaction, channel_ids: Collection[int]) -> None:
    """Reset the costs of channels that have a new base."""
    for channel in sorted(channel_ids):
        tx.connection.execute(update(merging).where(merging.c.channel_id == channel).values(_NO_COST))


def record_rewrite_cost(tx: Transaction, channel_id: int, rewriting: Json) -> None:
    _upsert_costs(tx, channel_id, {"rewriting": rewriting}, _NO_COST | {"asked": 0, "rewriting": rewriting})


def _upsert_costs(tx: Transaction, channel_id: int, change: Mapping[str, Any], first: Mapping[str, Any]) -> None:
    if not tx.connection.execute(update(merging).where(merging.c.channel_id == channel_id).values(change)).rowcount:
        tx.connection.execute(insert(merging).values({"channel_id": channel_id, **first}))
