"""Active alarms in the catalog: the beginning and the end of each is one event."""

from collections.abc import Mapping

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from tidemill.catalog.database import CatalogPart, in_transaction
from tidemill.catalog.events import EventKind
from tidemill.catalog.tables import alarms
from tidemill.catalog.transaction import Transaction
from tidemill.model.notice import AlarmKind, AlarmReading

_EVENTS = {
    AlarmKind.TARGET_MISSED: (EventKind.TARGET_MISSED, EventKind.TARGET_MET),
    AlarmKind.STORAGE_EXCEEDED: (EventKind.STORAGE_EXCEEDED, EventKind.STORAGE_REDUCED),
}
"""The events of an alarm's beginning and end. Alarms of flows are derived from the events of runs."""


class SqlAlarmCatalog(CatalogPart):
    """An `AlarmCatalog` over SQL."""

    def update(self, kind: AlarmKind, readings: Mapping[str, AlarmReading]) -> None:
        with self.database.open_snapshot() as connection:
            active = _read_active(connection, kind)
        if _find_changes(active, readings):
            self._update(kind, readings)

    @in_transaction
    def _update(self, tx: Transaction, kind: AlarmKind, readings: Mapping[str, AlarmReading]) -> None:
        begins, ends = _EVENTS[kind]
        active = _read_active(tx.connection, kind)
        for subject in _find_changes(active, readings):
            detail = readings[subject].detail if subject in readings else None
            if subject not in active and begin_alarm(tx, kind, subject, tx.now):
                tx.record_event(begins, subject, **(detail or {}))
            elif subject in active and end_alarm(tx, kind, subject) and detail is not None:
                tx.record_event(ends, subject, **detail, since=active[subject])


def begin_alarm(tx: Transaction, kind: AlarmKind, subject: str, at: float) -> bool:
    """Record that an alarm began; False if it is active."""
    if tx.connection.execute(select(alarms).where(*_is_alarm(kind, subject))).first() is not None:
        return False
    tx.connection.execute(insert(alarms).values(kind=kind, subject=subject, since=at))
    return True


def end_alarm(tx: Transaction, kind: AlarmKind, subject: str) -> bool:
    """Record that an alarm ended; False if it is not active."""
    return bool(tx.connection.execute(delete(alarms).where(*_is_alarm(kind, subject))).rowcount)


def _is_alarm(kind: AlarmKind, subject: str) -> tuple[ColumnElement[bool], ...]:
    return (alarms.c.kind == kind, alarms.c.subject == subject)


def _read_active(connection: Connection, kind: AlarmKind) -> dict[str, float]:
    """The subjects of the active alarms of a kind, each with its beginning."""
    rows = connection.execute(select(alarms.c.subject, alarms.c.since).where(alarms.c.kind == kind))
    return {row.subject: row.since for row in rows}


def _find_changes(active: Mapping[str, float], readings: Mapping[str, AlarmReading]) -> list[str]:
    """The subjects whose alarm begins or ends. The alarm of a subject without a reading, which is gone, ends."""
    wanted = {s: s in active if r.is_active is None else r.is_active for s, r in readings.items()}
    return sorted(s for s in active.keys() | wanted.keys() if wanted.get(s, False) != (s in active))
