"""The event log, and the offsets up to which consumers have read it."""

from sqlalchemy import Connection, func, insert, select, update

from tidemill.catalog.database import CatalogPart, in_snapshot, in_transaction
from tidemill.catalog.rows import to_event
from tidemill.catalog.tables import consumer_offsets, events
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict
from tidemill.ports.records import Event


class SqlEventCatalog(CatalogPart):
    """An `EventCatalog` over SQL."""

    @in_snapshot
    def list_newest(self, connection: Connection, limit: int) -> list[Event]:
        rows = connection.execute(select(events).order_by(events.c.id.desc()).limit(limit)).all()
        return [to_event(row) for row in reversed(rows)]

    @in_snapshot
    def read_last_id(self, connection: Connection) -> int:
        return connection.execute(select(func.max(events.c.id))).scalar() or 0

    @in_snapshot
    def find_consumer_offset(self, connection: Connection, name: str) -> int | None:
        return _find_offset(connection, name)

    @in_transaction
    def move_consumer_offset(self, tx: Transaction, name: str, since: int | None, upto: int) -> None:
        if since is None and _find_offset(tx.connection, name) is None:
            tx.execute(insert(consumer_offsets).values(name=name, event=upto))
            return
        conditions = (consumer_offsets.c.name == name, consumer_offsets.c.event == since)
        if not tx.execute(update(consumer_offsets).where(*conditions).values(event=upto)).rowcount:
            raise Conflict(f"{name} is no longer at {since}: another server has advanced it")

    @in_snapshot
    def list(self, connection: Connection, *, after: int = 0, run: int | None = None, limit: int = 100) -> list[Event]:
        query = select(events).where(events.c.id > after).order_by(events.c.id).limit(limit)
        rows = connection.execute(query if run is None else query.where(events.c.run_id == run))
        return [to_event(row) for row in rows]


def _find_offset(connection: Connection, name: str) -> int | None:
    query = select(consumer_offsets.c.event).where(consumer_offsets.c.name == name)
    offset: int | None = connection.execute(query).scalar()
    return offset
