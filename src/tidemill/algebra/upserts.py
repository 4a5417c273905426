"""Upserts in operators: the rows of a base after deltas that each say what some keys have now."""

from __future__ import annotations

from tidemill.algebra.expression import Expression, column, expression, literal, quoted
from tidemill.algebra.operators import Filter, Fold, Group, Named, Operator, Project, Union, extend, select
from tidemill.algebra.properties import Key
from tidemill.algebra.restrict import without
from tidemill.model.change import COUNT, DELETED

_LAST = "_last"


def upserted(base: Operator, changes: Operator, key: Key) -> Operator:
    """The content: `changes` has the base's columns, then whether a row is a deletion, then its order, from 1 on."""
    kept = without(base, select(changes, key), tuple((k, k) for k in key))
    return Union((kept, live(latest(changes, key, changes.columns[-1]))))


def replaced(before: Operator, touched: Operator) -> Operator:
    """A change in signed rows: what its keys have now, unless they are deleted, and what they had `before`."""
    now = extend(live(touched), Named(COUNT, literal("1L")))
    return Union((now, extend(before, Named(COUNT, literal("-1L")))))


def latest(rows: Operator, key: Key, order: str) -> Operator:
    """Of each key the row that is last in the order, which is left out."""
    names = tuple(c for c in rows.columns if c != order)
    rest = [c for c in names if c not in key]
    row = expression(f"STRUCT({', '.join(map(quoted, rest))})")
    picked = Group(rows, key, (Fold(_LAST, "max_by", (row, column(order))),))
    fields = {n: Expression(f"{quoted(_LAST)}.{quoted(n)}", frozenset([_LAST])) for n in rest}
    return Project(picked, tuple(Named(n, fields.get(n, column(n))) for n in names))


def live(rows: Operator) -> Operator:
    """The rows that are no deletions."""
    kept = Filter(rows, expression(f"NOT COALESCE({DELETED}, FALSE)"))
    return Project(kept, tuple(Named(c, column(c)) for c in rows.columns if c != DELETED))
