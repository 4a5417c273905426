"""Servers: heartbeats, leases for work that one server does for all, and overrides of their settings."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from tidemill.catalog.database import CatalogPart, in_snapshot, in_transaction
from tidemill.catalog.rows import build_reader
from tidemill.catalog.tables import leases, servers, setting_overrides
from tidemill.catalog.transaction import Transaction
from tidemill.ports.records import SERVING, SILENT, STOPPED, Server

_SILENT_SECONDS = 30.0  # seconds without a heartbeat after which a server is taken for dead
_EXPIRY_SECONDS = 86400.0  # seconds without a heartbeat after which a server is no longer listed
_LEADER = "leader"


class SqlServerCatalog(CatalogPart):
    """A `ServerCatalog` over SQL."""

    @in_transaction
    def record_heartbeat(self, tx: Transaction, server: Server, *, lease: float) -> bool:
        _record_presence(tx, server)
        return server.state == SERVING and _acquire_lease(tx, _LEADER, server.name, lease)

    @in_transaction
    def deregister(self, tx: Transaction, server: Server) -> None:
        _record_presence(tx, replace(server, state=STOPPED))
        _release_lease(tx, _LEADER, server.name)

    @in_transaction
    def acquire_lease(self, tx: Transaction, name: str, owner: str, *, lease: float) -> bool:
        return _acquire_lease(tx, name, owner, lease)

    @in_transaction
    def release_lease(self, tx: Transaction, name: str, owner: str) -> None:
        _release_lease(tx, name, owner)

    @in_snapshot
    def read_lease_end(self, connection: Connection, name: str) -> float | None:
        end: float | None = connection.execute(select(leases.c.until).where(leases.c.name == name)).scalar()
        return end

    @in_snapshot
    def read_setting_overrides(self, connection: Connection) -> dict[str, Any]:
        return {row.name: row.value for row in connection.execute(select(setting_overrides))}

    @in_transaction
    def override_settings(self, tx: Transaction, overrides: Mapping[str, Any]) -> None:
        for name, value in overrides.items():
            tx.execute(delete(setting_overrides).where(setting_overrides.c.name == name))
            if value is not None:
                tx.execute(insert(setting_overrides).values(name=name, value=value))

    @in_snapshot
    def list(self, connection: Connection) -> list[Server]:
        now = self.database.read_time_with(connection)
        owner = select(leases.c.owner).where(leases.c.name == _LEADER, leases.c.until > now)
        leads = servers.c.name.in_(owner) & (servers.c.state == SERVING)
        is_listed = servers.c.last_heartbeat >= now - _EXPIRY_SECONDS
        query = select(servers, leads.label("leader")).where(is_listed).order_by(servers.c.name)
        return [_find_silence(_to_server(row), now) for row in connection.execute(query)]


_to_server = build_reader(Server)


def _find_silence(server: Server, now: float) -> Server:
    """The server, with the state `SILENT` if it sends no heartbeats but has not stopped."""
    is_silent = server.state != STOPPED and server.last_heartbeat + _SILENT_SECONDS < now
    return replace(server, state=SILENT) if is_silent else server


def _record_presence(tx: Transaction, server: Server) -> None:
    """Record a server's presence and state. Servers without a heartbeat for a day are deleted."""
    values = {"role": server.role, "tracks": server.tracks, "last_heartbeat": tx.now, "state": server.state}
    if not tx.execute(update(servers).where(servers.c.name == server.name).values(values)).rowcount:
        tx.execute(insert(servers).values(values | {"name": server.name, "started": tx.now}))
        tx.execute(delete(servers).where(servers.c.last_heartbeat < tx.now - _EXPIRY_SECONDS))


def _acquire_lease(tx: Transaction, name: str, owner: str, seconds: float) -> bool:
    """Acquire or renew the lease of a name; False if another owner holds it."""
    lease = tx.execute(select(leases).where(leases.c.name == name).with_for_update()).one_or_none()
    if lease is None:
        values = {"name": name, "owner": owner, "fencing_token": 1, "until": tx.now + seconds}
        tx.execute(insert(leases).values(values))
        return True
    if lease.owner != owner and lease.until > tx.now:
        return False
    fencing_token = lease.fencing_token if lease.owner == owner else lease.fencing_token + 1
    new_values = {"owner": owner, "fencing_token": fencing_token, "until": tx.now + seconds}
    unchanged = (leases.c.name == name, leases.c.fencing_token == lease.fencing_token)
    return bool(tx.execute(update(leases).where(*unchanged).values(new_values)).rowcount)


def _release_lease(tx: Transaction, name: str, owner: str) -> None:
    """Release the lease of a name, if `owner` holds it: another owner may acquire it at once."""
    conditions = (leases.c.name == name, leases.c.owner == owner)
    tx.execute(update(leases).where(*conditions).values(until=tx.now))
