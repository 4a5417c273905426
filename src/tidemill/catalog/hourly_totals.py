"""Before something is forgotten it is counted, by the hour; so that figures of the past stay right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from tidemill.catalog.oneshot_tables import tallies
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.transaction import Transaction
from tidemill.model.usage import UsagePeriod, UsageRecord
from tidemill.retention.usage_history import COUNTED, TimeResolution, UsageFigures, UsageTally, tally_usage


def record_tallies(tx: Transaction, past: Sequence[UsageRecord]) -> None:
    """Count what is about to be forgotten."""
    for one in tally_usage(past):
        counts = {name: getattr(one.figures, name) for name in COUNTED}
        more = {name: tallies.c[name] + count for name, count in counts.items()}
        if not tx.connection.execute(update(tallies).where(*_match_key(one)).values(more)).rowcount:
            tx.connection.execute(insert(tallies).values(_build_key(one) | counts))


def _build_key(one: UsageTally) -> dict[str, float | str]:
    return {"begin": one.figures.begin, "user": one.user or "", "workflow": one.workflow, "task": one.task or ""}


def _match_key(one: UsageTally) -> Iterator[ColumnElement[bool]]:
    return (tallies.c[name] == value for name, value in _build_key(one).items())


def read_tallies(connection: Connection, wanted: UsagePeriod) -> list[UsageTally]:
    """The tallies of hours that begin within a period, that of its first hour included."""
    within = (tallies.c.begin >= TimeResolution.HOUR.find_begin(wanted.since), tallies.c.begin < wanted.until)
    named = ((tallies.c[n], getattr(wanted, n)) for n in ("user", "workflow", "task"))
    of = [column == name for column, name in named if name is not None]
    rows = connection.execute(select(tallies).where(*within, *of).order_by(tallies.c.begin))
    return [_to_tally(row) for row in rows]


def _to_tally(row: AnyRow) -> UsageTally:
    figures = UsageFigures(row.begin, **{name: getattr(row, name) for name in COUNTED})
    return UsageTally(row.user or None, row.workflow, row.task or None, figures)


def expire_tallies(tx: Transaction, before: float) -> None:
    tx.connection.execute(delete(tallies).where(tallies.c.begin < before))
