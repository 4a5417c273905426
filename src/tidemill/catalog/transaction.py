"""A write transaction: its connection, its time, the catalog's clock and the events that it records.

Rows are locked in one order everywhere: the run, then channels by id, then the clock.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table, insert, select, update

from tidemill.catalog.events import EventKind
from tidemill.catalog.tables import clock, events
from tidemill.model.codec import Json
from tidemill.model.time import Version, compute_next_version


class Transaction:
    """A transaction that began at `now`. Its changes and events become visible by `write_events` and a commit."""

    def __init__(self, connection: Connection, now: float) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.now = now
        self._last: Version | None = None  # the clock's last reading, once this transaction has locked it
        self._events: list[Json] = []

    def tick_clock(self) -> Version:
        """The clock's next reading. Readings strictly increase in the order in which transactions commit."""
        self._last = compute_next_version(self._lock_clock(), self.now)
        return self._last

    def record_event(self, kind: EventKind, subject: str, run: int | None = None, /, **detail: Any) -> None:
        self._events.append({"at": self.now, "kind": kind, "subject": subject, "run_id": run, "detail": detail})

    def upsert_row(
        self, table: Table, key: Json, change: Mapping[str, Any], first: Mapping[str, Any] | None = None
    ) -> None:
        """Change the row with a key; if there is none, insert one with the values of `first`, or else of `change`."""
        conditions = [table.c[name] == value for name, value in key.items()]
        if not self.execute(update(table).where(*conditions).values(change)).rowcount:
            self.execute(insert(table).values({**key, **(change if first is None else first)}))

    @property
    def has_changes(self) -> bool:
        """Whether the transaction recorded an event; every change records one."""
        return bool(self._events)

    def write_events(self) -> None:
        """Write the clock and the events.

        Events are numbered while the clock is locked, so that their numbers follow the order of commits: a consumer
        that reads the events after the last one it has seen misses none.
        """
        if self.has_changes:
            self.execute(update(clock).values(last=self._lock_clock()))
            self.execute(insert(events), self._events)

    def _lock_clock(self) -> Version:
        if self._last is None:
            self._last = self.execute(select(clock.c.last).with_for_update()).scalar_one()
        return self._last
