"""Before something is forgotten it is counted, by the hour; so that figures of the past stay right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from tidemill.catalog.oneshot_tables import tallies
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.transaction import Transaction
from tidemill.model.usage import Past, Period
from tidemill.retention.usage_history import COUNTED, Figures, Resolution, Tally, tallied


def tally(tx: Transaction, past: Sequence[Past]) -> None:
    """Count what is about to be forgotten."""
    for one in tallied(past):
        counts = {name: getattr(one.figures, name) for name in COUNTED}
        more = {name: tallies.c[name] + count for name, count in counts.items()}
        if not tx.connection.execute(update(tallies).where(*_same(one)).values(more)).rowcount:
            tx.connection.execute(insert(tallies).values(_key(one) | counts))


def _key(one: Tally) -> dict[str, float | str]:
    return {"begin": one.figures.begin, "user": one.user or "", "workflow": one.workflow, "task": one.task or ""}


def _same(one: Tally) -> Iterator[ColumnElement[bool]]:
    return (tallies.c[name] == value for name, value in _key(one).items())


def found(connection: Connection, wanted: Period) -> list[Tally]:
    """The tallies of hours that begin within a period, that of its first hour included."""
    within = (tallies.c.begin >= Resolution.HOUR.begin(wanted.since), tallies.c.begin < wanted.until)
    named = ((tallies.c[n], getattr(wanted, n)) for n in ("user", "workflow", "task"))
    of = [column == name for column, name in named if name is not None]
    rows = connection.execute(select(tallies).where(*within, *of).order_by(tallies.c.begin))
    return [_tally(row) for row in rows]


def _tally(row: AnyRow) -> Tally:
    figures = Figures(row.begin, **{name: getattr(row, name) for name in COUNTED})
    return Tally(row.user or None, row.workflow, row.task or None, figures)


def forget(tx: Transaction, before: float) -> None:
    tx.connection.execute(delete(tallies).where(tallies.c.begin < before))
