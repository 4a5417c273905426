"""How far somebody has come who is told things in their order."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from tidemill.catalog.tables import places
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict


def find(connection: Connection, name: str) -> int | None:
    found: int | None = connection.execute(select(places.c.event).where(places.c.name == name)).scalar()
    return found


def move(tx: Transaction, name: str, since: int | None, upto: int) -> None:
    """From where it is; None: from nowhere."""
    if since is None and find(tx.connection, name) is None:
        tx.connection.execute(insert(places).values(name=name, event=upto))
        return
    from_there = update(places).where(places.c.name == name, places.c.event == since).values(event=upto)
    if not tx.connection.execute(from_there).rowcount:
        raise Conflict(f"{name} is no longer at {since}: another server goes on with it")
