"""What those who read a channel have paid for merging since its newest base, and what a new base costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, insert, select, update

from tidemill.catalog.queries import read_channel_ids
from tidemill.catalog.tables import channels, merging
from tidemill.catalog.transaction import Transaction
from tidemill.model.codec import Json
from tidemill.ports.records import ChannelMergeCost

_NOTHING = {"reads": 0, "paid": 0.0}


def list_merge_costs(connection: Connection, paid: float) -> list[ChannelMergeCost]:
    found = select(merging, channels.c.name).join_from(merging, channels).where(merging.c.paid >= paid)
    rows = connection.execute(found.order_by(channels.c.name))
    return [ChannelMergeCost(row.name, row.reads, row.paid, row.rewriting, row.asked) for row in rows]


def record_merge_costs(tx: Transaction, paid: Mapping[str, float], *, asked: bool) -> None:
    """One read of each of these channels, and the seconds that merging took; always by id, as channels are locked.

    `asked`: by somebody who waited for it, and not by a run.
    """
    ids = read_channel_ids(tx.connection, paid) if paid else {}
    for name in sorted(paid, key=ids.__getitem__):
        first = {"reads": int(paid[name] > 0), "paid": paid[name], "asked": int(asked)}
        _upsert_costs(tx, ids[name], {column: merging.c[column] + more for column, more in first.items()}, first)


def reset_merge_costs(tx: Transaction, channel_ids: Collection[int]) -> None:
    """These channels have a newer base: nothing was paid since."""
    for channel in sorted(channel_ids):
        tx.connection.execute(update(merging).where(merging.c.channel_id == channel).values(_NOTHING))


def record_rewrite_cost(tx: Transaction, channel_id: int, rewriting: Json) -> None:
    _upsert_costs(tx, channel_id, {"rewriting": rewriting}, _NOTHING | {"asked": 0, "rewriting": rewriting})


def _upsert_costs(tx: Transaction, channel_id: int, change: Mapping[str, Any], first: Mapping[str, Any]) -> None:
    if not tx.connection.execute(update(merging).where(merging.c.channel_id == channel_id).values(change)).rowcount:
        tx.connection.execute(insert(merging).values({"channel_id": channel_id, **first}))
