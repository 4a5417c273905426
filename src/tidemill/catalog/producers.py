"""Producers and consumers: the last number of each producer on a channel, and the offset of each consumer.

A producer numbers its messages 1, 2, 3, …; its number moves in the commit of the block that holds them. So a message
that is sent again is recognised, by any server and after any crash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, delete, insert, select, update

from tidemill.catalog.queries import read_channel, read_channel_ids
from tidemill.catalog.tables import consumer_offsets, producers
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict
from tidemill.model.run import FILE_PRODUCER_PREFIX, ProducerAdvance


def read_sequences(connection: Connection, channel: str, names: Collection[str]) -> dict[str, int]:
    """The number of the last committed message of each producer on the channel; 0 if there is none."""
    conditions = (producers.c.channel_id == read_channel(connection, channel).id, producers.c.name.in_(names))
    rows = connection.execute(select(producers.c.name, producers.c.last).where(*conditions)).all()
    return dict.fromkeys(names, 0) | {row.name: row.last for row in rows}


def advance_producers(tx: Transaction, producer_advances: Iterable[ProducerAdvance]) -> None:
    advances = tuple(producer_advances)
    ids = read_channel_ids(tx.connection, (move.channel for move in advances)) if advances else {}
    for move in sorted(
        advances, key=lambda advance: advance.producer
    ):  # in one order, so that transactions cannot deadlock
        _advance_producer(tx, ids[move.channel], move)


def expire_producers(tx: Transaction, age: float) -> int:
    """Expire producers without messages for `age` seconds; returns their number. Hashes of files never expire."""
    silent = (producers.c.at < tx.now - age, ~producers.c.name.startswith(FILE_PRODUCER_PREFIX, autoescape=True))
    return tx.connection.execute(delete(producers).where(*silent)).rowcount


def _advance_producer(tx: Transaction, channel: int, move: ProducerAdvance) -> None:
    """Move a producer's number by compare-and-swap."""
    conditions = (producers.c.channel_id == channel, producers.c.name == move.producer)
    statement = update(producers).where(*conditions, producers.c.last == move.since).values(last=move.upto, at=tx.now)
    if tx.connection.execute(statement).rowcount:
        return
    current = tx.connection.execute(select(producers.c.last).where(*conditions)).scalar()
    if current is not None or move.since != 0:
        raise Conflict(
            f"producer {move.producer!r} of channel {move.channel!r} is at message {current or 0}, not at "
            f"{move.since}: another client pushed for it meanwhile; send the unacknowledged messages again"
        )
    values = {"channel_id": channel, "name": move.producer, "last": move.upto, "at": tx.now}
    tx.connection.execute(insert(producers).values(values))


def find_consumer_offset(connection: Connection, name: str) -> int | None:
    offset: int | None = connection.execute(
        select(consumer_offsets.c.event).where(consumer_offsets.c.name == name)
    ).scalar()
    return offset


def move_consumer_offset(tx: Transaction, name: str, since: int | None, upto: int) -> None:
    """Move an offset from `since` by compare-and-swap; None: it does not exist yet."""
    if since is None and find_consumer_offset(tx.connection, name) is None:
        tx.connection.execute(insert(consumer_offsets).values(name=name, event=upto))
        return
    statement = (
        update(consumer_offsets)
        .where(consumer_offsets.c.name == name, consumer_offsets.c.event == since)
        .values(event=upto)
    )
    if not tx.connection.execute(statement).rowcount:
        raise Conflict(f"{name} is no longer at {since}: another server has advanced it")
