"""Results whose change may touch many rows at once.

A join of many rows to one (pages to the score of their site) changes in all rows that share a partner when the
partner does. Such a result keeps the partner's change itself, as a patch: one row that says what all of them have now.
It becomes rows only when somebody reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.algebra.expression import Expression, column, expression, literal, quoted
from tidemill.algebra.operators import Filter, Join, JoinKind, Named, Operator, Project
from tidemill.algebra.properties import Key, keys_of, unique_on
from tidemill.algebra.simplify import composed
from tidemill.model.change import DELETED, PATCH


@dataclass(frozen=True, slots=True)
class Shared:
    """A join of many to one as a result: what of it is the partner's, and by which columns a partner is found."""

    join: Join
    items: tuple[Named, ...]  # the result's columns, over those of the join
    key: Key
    by: Mapping[str, str]  # result column to the left key that it is
    columns: Mapping[str, Expression]  # result column to its value, over the partner's columns and the left keys

    @property
    def inner(self) -> bool:
        return self.join.kind is JoinKind.INNER


def shared(root: Operator) -> Shared | None:
    """The root as a join of many to one, if that is what it is."""
    items, below = _flat(root)
    if not isinstance(below, Join) or not _many_to_one(below):
        return None
    keys = [k for k in _kept(keys_of(below.left), items) if k]
    by = {n: c for c, _ in below.keys for n in [_name_of(c, items)] if n is not None}
    columns = _partners_own(below, items)
    if not keys or columns is None or not columns or len(by) < len(below.keys):
        return None
    return Shared(below, items, keys[0], by, columns)


def _many_to_one(op: Join) -> bool:
    to_one = set(op.right_keys) in [set(k) for k in keys_of(op.right)]
    kind = op.kind in (JoinKind.INNER, JoinKind.LEFT)
    return kind and bool(op.keys) and op.condition is None and to_one and not unique_on(op.left, op.left_keys)


def _flat(op: Operator) -> tuple[tuple[Named, ...], Operator]:
    """Projections on top of each other as one."""
    if not isinstance(op, Project):
        return (), op
    items, below = op.items, op.child
    while isinstance(below, Project) and (over := composed(items, below.items)) is not None:
        items, below = over, below.child
    return items, below


def _name_of(name: str, items: tuple[Named, ...]) -> str | None:
    return next((i.name for i in items if i.value.column == name), None)


def _kept(keys: tuple[Key, ...], items: tuple[Named, ...]) -> list[Key]:
    found = []
    for key in keys:
        names = [_name_of(c, items) for c in key]
        if all(n is not None for n in names):
            found.append(tuple(n for n in names if n is not None))
    return found


def _partners_own(op: Join, items: tuple[Named, ...]) -> dict[str, Expression] | None:
    """The columns that depend on the partner; None if one depends on more of the left side than the keys."""
    never = set(op.right_keys) if op.kind is JoinKind.INNER else set()  # a partner's key does not change
    found: dict[str, Expression] = {}
    for item in items:
        used = item.value.columns
        if used <= {*op.left.columns, *never}:
            continue
        if not used <= {*op.right.columns, *op.left_keys}:
            return None
        found[item.name] = item.value
    return found


def as_upserts(result: Shared, rows: Operator) -> Operator:
    marks = (Named(DELETED, column(DELETED)), Named(PATCH, literal("FALSE")))
    return Project(rows, (*result.items, *marks))


def as_patches(result: Shared, partners: Operator) -> Operator:
    """A partner's values for all its rows. Without it, an outer join's rows have none; an inner join has no rows.

    NULL finds no partner, unless the join takes it for a value.
    """
    keys = result.join.keys
    meets = " AND ".join(f"{quoted(k)} IS NOT NULL" for _, k in keys)
    known = partners if result.join.safe else Filter(partners, expression(meets))
    there = [(c, expression(f"CASE WHEN NOT {DELETED} THEN {quoted(c)} END")) for c in result.join.right.columns]
    seen = [*((left, column(right)) for left, right in keys), *there, (DELETED, column(DELETED))]
    items: list[Named] = []
    for item in result.items:
        if item.name in result.by:
            items.append(Named(item.name, column(result.by[item.name])))
        elif item.name in result.columns:
            items.append(item)
        else:
            items.append(Named(item.name, literal("NULL")))
    gone = column(DELETED) if result.inner else literal("FALSE")
    marks = (Named(DELETED, gone), Named(PATCH, literal("TRUE")))
    return Project(Project(known, tuple(Named(n, v) for n, v in seen)), (*items, *marks))
