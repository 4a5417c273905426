"""Producers and consumers: the last number of each producer on a channel, and the offset of each consumer.

A producer numbers its messages 1, 2, 3, …; its number moves in the commit of the block that holds them. So what is sent
again is known again, however often, to whichever server and after whatever crash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, delete, insert, select, update

from tidemill.catalog.queries import read_channel, read_channel_ids
from tidemill.catalog.tables import places, producers
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict
from tidemill.model.run import CONTENT, ProducerAdvance


def read_sequences(connection: Connection, channel: str, names: Collection[str]) -> dict[str, int]:
    """The number of the last message of each that is in the channel; who never sent one is at 0."""
    these = (producers.c.channel_id == read_channel(connection, channel).id, producers.c.name.in_(names))
    found = connection.execute(select(producers.c.name, producers.c.last).where(*these)).all()
    return dict.fromkeys(names, 0) | {row.name: row.last for row in found}


def advance_producers(tx: Transaction, moves: Iterable[ProducerAdvance]) -> None:
    moved = tuple(moves)
    ids = read_channel_ids(tx.connection, (move.channel for move in moved)) if moved else {}
    for move in sorted(moved, key=lambda m: m.producer):  # in one order, so that no two wait for each other
        _advance_producer(tx, ids[move.channel], move)


def expire_producers(tx: Transaction, age: float) -> int:
    """Forget those of whom nothing came for so many seconds; returns how many. Contents of files are known for ever."""
    silent = (producers.c.at < tx.now - age, ~producers.c.name.startswith(CONTENT, autoescape=True))
    return tx.connection.execute(delete(producers).where(*silent)).rowcount


def _advance_producer(tx: Transaction, channel: int, move: ProducerAdvance) -> None:
    """Compare and swap."""
    same = (producers.c.channel_id == channel, producers.c.name == move.producer)
    moving = update(producers).where(*same, producers.c.last == move.since).values(last=move.upto, at=tx.now)
    if tx.connection.execute(moving).rowcount:
        return
    found = tx.connection.execute(select(producers.c.last).where(*same)).scalar()
    if found is not None or move.since != 0:
        raise Conflict(
            f"producer {move.producer!r} of channel {move.channel!r} is at message {found or 0}, not at {move.since}: "
            "somebody else pushed for it meanwhile; send again what was not acknowledged"
        )
    new = {"channel_id": channel, "name": move.producer, "last": move.upto, "at": tx.now}
    tx.connection.execute(insert(producers).values(new))


def find_consumer_offset(connection: Connection, name: str) -> int | None:
    found: int | None = connection.execute(select(places.c.event).where(places.c.name == name)).scalar()
    return found


def move_consumer_offset(tx: Transaction, name: str, since: int | None, upto: int) -> None:
    """From where it is; None: from nowhere."""
    if since is None and find_consumer_offset(tx.connection, name) is None:
        tx.connection.execute(insert(places).values(name=name, event=upto))
        return
    from_there = update(places).where(places.c.name == name, places.c.event == since).values(event=upto)
    if not tx.connection.execute(from_there).rowcount:
        raise Conflict(f"{name} is no longer at {since}: another server goes on with it")
