"""Notices in the catalog: created from events exactly once, and stored until they are delivered."""

from dataclasses import asdict

from sqlalchemy import Connection, delete, func, insert, select, update

from tidemill.catalog.alarms import begin_alarm, end_alarm
from tidemill.catalog.database import CatalogPart, in_snapshot, in_transaction
from tidemill.catalog.events import EventKind
from tidemill.catalog.rows import AnyRow, build_reader
from tidemill.catalog.tables import consumer_offsets, events, notices, runs
from tidemill.catalog.transaction import Transaction
from tidemill.model.notice import MAX_DELIVERY_ATTEMPTS, AlarmKind, Notice, build_notice, compute_pause
from tidemill.model.run import RunKind

NOTICES = "notices"
_BATCH_SIZE = 500
_RETENTION_SECONDS = 7 * 86400.0  # seconds that delivered notices are stored


class SqlNoticeCatalog(CatalogPart):
    """A `NoticeCatalog` over SQL."""

    def create(self, receivers: list[str]) -> int:
        with self.database.open_snapshot() as connection:
            if not _has_new_events(connection):
                return 0
        return self._create(receivers)

    @in_transaction
    def _create(self, tx: Transaction, receivers: list[str]) -> int:
        """Create notices from the events after the stored offset, one for each receiver, and move the offset."""
        of_notices = consumer_offsets.c.name == NOTICES
        offset = tx.execute(select(consumer_offsets).where(of_notices).with_for_update()).one_or_none()
        if offset is None:  # events before the first call cause no notices
            newest = tx.execute(select(func.max(events.c.id))).scalar() or 0
            tx.execute(insert(consumer_offsets).values(name=NOTICES, event=newest))
            return 0
        query = select(events, runs.c.kind.label("run_kind")).outerjoin(runs, runs.c.id == events.c.run_id)
        query = query.where(events.c.id > offset.event).order_by(events.c.id).limit(_BATCH_SIZE)
        new_events = tx.execute(query).all()
        new_notices = [notice for event in new_events if (notice := _build_notice(tx, event)) is not None]
        if new_events:
            tx.execute(update(consumer_offsets).where(of_notices).values(event=new_events[-1].id))
        rows = [_build_values(notice, receiver) for notice in new_notices for receiver in receivers]
        if rows:
            tx.execute(insert(notices), rows)
        return len(new_notices)

    @in_snapshot
    def list_due(self, connection: Connection, limit: int = 100) -> list[tuple[str, Notice]]:
        is_due = notices.c.due <= self.database.read_time_with(connection)
        query = select(notices).where(is_due).order_by(notices.c.due, notices.c.id).limit(limit)
        return [(row.receiver, _to_notice(row)) for row in connection.execute(query)]

    @in_transaction
    def record_delivery(self, tx: Transaction, notice: int) -> None:
        tx.execute(update(notices).where(notices.c.id == notice).values(due=None, sent=tx.now, error=None))
        tx.execute(delete(notices).where(notices.c.sent < tx.now - _RETENTION_SECONDS))

    @in_transaction
    def record_delivery_failure(self, tx: Transaction, notice: int, error: str) -> None:
        row = tx.execute(select(notices).where(notices.c.id == notice)).one_or_none()
        if row is not None:
            attempts = row.attempts + 1
            next_attempt = tx.now + compute_pause(attempts) if attempts < MAX_DELIVERY_ATTEMPTS else None
            values = {"attempts": attempts, "due": next_attempt, "error": error}
            tx.execute(update(notices).where(notices.c.id == notice).values(values))


def _has_new_events(connection: Connection) -> bool:
    """Whether there are events after the last one that notices were created from."""
    offset = select(consumer_offsets.c.event).where(consumer_offsets.c.name == NOTICES).scalar_subquery()
    newest = connection.execute(select(func.max(events.c.id), offset)).one()
    return newest[1] is None or (newest[0] or 0) > newest[1]


def _build_notice(tx: Transaction, event: AnyRow) -> Notice | None:
    if event.run_id is not None and not _changes_state(tx, event):
        return None
    return build_notice(event.kind, event.subject, event.detail | {"run": event.run_id}, event.at)


def _changes_state(tx: Transaction, event: AnyRow) -> bool:
    """Whether the event of a run is the first failure of a flow, its first success after that, or of another kind."""
    if event.kind not in (EventKind.RUN_FAILED, EventKind.RUN_FINISHED):
        return True
    if event.run_kind != RunKind.FLOW:
        return False
    if event.kind == EventKind.RUN_FAILED:
        return begin_alarm(tx, AlarmKind.FLOW_FAILING, event.subject, event.at)
    return end_alarm(tx, AlarmKind.FLOW_FAILING, event.subject)


def _build_values(notice: Notice, receiver: str) -> dict[str, object]:
    values = asdict(notice) | {"receiver": receiver, "due": notice.at}
    del values["id"]
    return values


_to_notice = build_reader(Notice)
