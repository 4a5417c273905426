"""Servers: heartbeats, and leases for work that one server does for all."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, delete, insert, select, update

from tidemill.catalog.tables import leases, servers
from tidemill.catalog.transaction import Transaction
from tidemill.ports.records import Server

_EXPIRY_SECONDS = 86400.0  # seconds after which a silent server is no longer listed


def record_presence(tx: Transaction, server: Server) -> None:
    """Record a server's presence and state. Servers without a heartbeat for a day are deleted."""
    values = {"role": server.role, "tracks": server.tracks, "last_heartbeat": tx.now, "state": server.state}
    if not tx.connection.execute(update(servers).where(servers.c.name == server.name).values(values)).rowcount:
        tx.connection.execute(insert(servers).values(values | {"name": server.name, "started": tx.now}))
        tx.connection.execute(delete(servers).where(servers.c.last_heartbeat < tx.now - _EXPIRY_SECONDS))


LEADER = "leader"


def record_heartbeat(tx: Transaction, server: Server, lease: float) -> bool:
    record_presence(tx, server)
    return server.state == "serving" and acquire_lease(tx, LEADER, server.name, lease)


def acquire_lease(tx: Transaction, name: str, owner: str, seconds: float) -> bool:
    """Acquire or renew the lease of a name; False if another owner holds it."""
    lease = tx.connection.execute(select(leases).where(leases.c.name == name).with_for_update()).one_or_none()
    if lease is None:
        values = {"name": name, "owner": owner, "fencing_token": 1, "until": tx.now + seconds}
        tx.connection.execute(insert(leases).values(values))
        return True
    if lease.owner != owner and lease.until > tx.now:
        return False
    fencing_token = lease.fencing_token if lease.owner == owner else lease.fencing_token + 1
    new_values = {"owner": owner, "fencing_token": fencing_token, "until": tx.now + seconds}
    unchanged = (leases.c.name == name, leases.c.fencing_token == lease.fencing_token)
    return bool(tx.connection.execute(update(leases).where(*unchanged).values(new_values)).rowcount)


def release_lease(tx: Transaction, name: str, owner: str) -> None:
    """Release the lease of a name, if `owner` holds it: another owner may acquire it at once."""
    conditions = (leases.c.name == name, leases.c.owner == owner)
    tx.connection.execute(update(leases).where(*conditions).values(until=tx.now))


def read_lease_end(connection: Connection, name: str) -> float | None:
    end: float | None = connection.execute(select(leases.c.until).where(leases.c.name == name)).scalar()
    return end


def deregister_server(tx: Transaction, server: Server) -> None:
    """Record that a server stops; another server may become the leader at once."""
    record_presence(tx, replace(server, state="stopped"))
    release_lease(tx, LEADER, server.name)
