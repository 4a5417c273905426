"""Servers: who is there, and which of them does what one does for all."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, delete, insert, select, update

from tidemill.catalog.tables import leases, servers
from tidemill.catalog.transaction import Transaction
from tidemill.ports.records import Server

_FORGOTTEN = 86400.0  # seconds after which a silent server is no longer listed


def record_presence(tx: Transaction, server: Server) -> None:
    """Say that a server is there, and how it is. Those not seen for a long time are forgotten."""
    values = {"role": server.role, "tracks": server.tracks, "seen": tx.now, "state": server.state}
    if not tx.connection.execute(update(servers).where(servers.c.name == server.name).values(values)).rowcount:
        tx.connection.execute(insert(servers).values(values | {"name": server.name, "started": tx.now}))
        tx.connection.execute(delete(servers).where(servers.c.seen < tx.now - _FORGOTTEN))


LEADER = "leader"


def record_heartbeat(tx: Transaction, server: Server, lease: float) -> bool:
    record_presence(tx, server)
    return server.state == "serving" and acquire_lease(tx, LEADER, server.name, lease)


def acquire_lease(tx: Transaction, name: str, owner: str, seconds: float) -> bool:
    """Take, or keep, the lease of a name; False if somebody else holds it."""
    found = tx.connection.execute(select(leases).where(leases.c.name == name).with_for_update()).one_or_none()
    if found is None:
        mine = {"name": name, "owner": owner, "fence": 1, "until": tx.now + seconds}
        tx.connection.execute(insert(leases).values(mine))
        return True
    if found.owner != owner and found.until > tx.now:
        return False
    fence = found.fence if found.owner == owner else found.fence + 1
    values = {"owner": owner, "fence": fence, "until": tx.now + seconds}
    as_read = (leases.c.name == name, leases.c.fence == found.fence)
    return bool(tx.connection.execute(update(leases).where(*as_read).values(values)).rowcount)


def release_lease(tx: Transaction, name: str, owner: str) -> None:
    """Give up the lease of a name, if it is this one's: somebody else may take it at once."""
    mine = (leases.c.name == name, leases.c.owner == owner)
    tx.connection.execute(update(leases).where(*mine).values(until=tx.now))


def read_lease_end(connection: Connection, name: str) -> float | None:
    found: float | None = connection.execute(select(leases.c.until).where(leases.c.name == name)).scalar()
    return found


def deregister_server(tx: Transaction, server: Server) -> None:
    """The server leaves; somebody else may lead at once."""
    record_presence(tx, replace(server, state="stopped"))
    release_lease(tx, LEADER, server.name)
