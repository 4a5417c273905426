"""Hourly totals of expired history, so that usage figures of the past stay correct."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from tidemill.catalog.oneshot_tables import tallies
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.transaction import Transaction
from tidemill.model.usage import UsagePeriod, UsageRecord
from tidemill.retention.usage_history import COUNTED, TimeResolution, UsageFigures, UsageTally, tally_usage


def record_tallies(tx: Transaction, records: Sequence[UsageRecord]) -> None:
    """Add records that are about to expire to the hourly totals."""
    for tally in tally_usage(records):
        counts = {name: getattr(tally.figures, name) for name in COUNTED}
        sums = {name: tallies.c[name] + count for name, count in counts.items()}
        if not tx.connection.execute(update(tallies).where(*_match_key(tally)).values(sums)).rowcount:
            tx.connection.execute(insert(tallies).values(_build_key(tally) | counts))


def _build_key(tally: UsageTally) -> dict[str, float | str]:
    return {
        "begin": tally.figures.begin,
        "user": tally.user or "",
        "workflow": tally.workflow,
        "task": tally.task or "",
    }


def _match_key(tally: UsageTally) -> Iterator[ColumnElement[bool]]:
    return (tallies.c[name] == value for name, value in _build_key(tally).items())


def read_tallies(connection: Connection, period: UsagePeriod) -> list[UsageTally]:
    """The totals of the hours that overlap a period, including its first hour."""
    within = (tallies.c.begin >= TimeResolution.HOUR.find_begin(period.since), tallies.c.begin < period.until)
    filters = ((tallies.c[n], getattr(period, n)) for n in ("user", "workflow", "task"))
    conditions = [column == name for column, name in filters if name is not None]
    rows = connection.execute(select(tallies).where(*within, *conditions).order_by(tallies.c.begin))
    return [_to_tally(row) for row in rows]


def _to_tally(row: AnyRow) -> UsageTally:
    figures = UsageFigures(row.begin, **{name: getattr(row, name) for name in COUNTED})
    return UsageTally(row.user or None, row.workflow, row.task or None, figures)


def expire_tallies(tx: Transaction, before: float) -> None:
    tx.connection.execute(delete(tallies).where(tallies.c.begin < before))
