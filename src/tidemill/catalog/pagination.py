"""Paginated lists of runs and events."""

from __future__ import annotations

from sqlalchemy import ColumnElement, func, select

from tidemill.catalog.reader import SqlCatalogReader
from tidemill.catalog.rows import to_event, to_run
from tidemill.catalog.tables import events, runs
from tidemill.model.run import Run, RunKind, RunState
from tidemill.ports.records import Event


def list_run_page(
    catalog: SqlCatalogReader,
    *,
    state: RunState | None = None,
    kind: RunKind | None = None,
    subject: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[Run]:
    """Runs, the newest first; the next page starts before the last run of this one."""
    conditions: list[ColumnElement[bool]] = []
    if state is not None:
        conditions.append(runs.c.state == state)
    if kind is not None:
        conditions.append(runs.c.kind == kind)
    if subject is not None:
        conditions.append(runs.c.subject == subject)
    if before is not None:
        conditions.append(runs.c.id < before)
    with catalog._open_connection() as connection:
        rows = connection.execute(select(runs).where(*conditions).order_by(runs.c.id.desc()).limit(limit))
        return [to_run(row) for row in rows]


def list_newest_events(catalog: SqlCatalogReader, limit: int) -> list[Event]:
    """The last events, the oldest first."""
    with catalog._open_connection() as connection:
        rows = connection.execute(select(events).order_by(events.c.id.desc()).limit(limit)).all()
        return [to_event(row) for row in reversed(rows)]


def read_last_event_id(catalog: SqlCatalogReader) -> int:
    """The number of the newest event; 0 if there is none."""
    with catalog._open_connection() as connection:
        newest: int | None = connection.execute(select(func.max(events.c.id))).scalar()
        return newest or 0
