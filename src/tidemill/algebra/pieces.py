"""Pieces of derived operators: what several rules of `derive` are made of, and upserts as operators."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.expression import Expression, column, expression, literal, quoted
from tidemill.algebra.operators import (
    Filter,
    Fold,
    Group,
    Join,
    JoinKind,
    Named,
    Operator,
    Project,
    Scan,
    Union,
    extend,
    rename,
    select,
    walk,
)
from tidemill.algebra.properties import Key
from tidemill.algebra.restrict import without
from tidemill.algebra.states import GroupState, there
from tidemill.model.change import COUNT, DELETED

NEW, OLD, ADDED = "new.", "old.", "added."
"""In front of a column: as it is now, as it was, and what was added to it."""

IS, WAS = "_is", "_was"
"""Columns that say whether something is there now, and was before."""


def light(op: Operator) -> bool:
    """Is there nothing between its scans and its rows that a restriction would spare?"""
    return all(isinstance(o, Scan | Project | Filter) for o in walk(op))


def together(parts: Sequence[Operator]) -> Operator | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Union(tuple(parts))


def same(names: Key) -> tuple[tuple[str, str], ...]:
    return tuple((n, n) for n in names)


def renamed(op: Operator, prefix: str, but: Key = ()) -> Project:
    return rename(op, {c: c if c in but else prefix + c for c in op.columns})


def side_by_side(now: Operator, was: Operator, keys: Key) -> Operator:
    """The keys of either side once, with whether they are now (`_is`) and were before (`_was`), as 1 or 0."""
    sides = [
        extend(rows, Named(IS, literal(f"{1 - i}")), Named(WAS, literal(f"{i}"))) for i, rows in enumerate((now, was))
    ]
    return Group(Union(tuple(sides)), keys, tuple(Fold(n, "max", (column(n),)) for n in (IS, WAS)))


def padded_union(left: Operator, right: Operator) -> Operator:
    """All rows of both; what one side has not is NULL."""
    names = tuple(dict.fromkeys((*left.columns, *right.columns)))
    return Union(tuple(with_all(side, names) for side in (left, right)))


def with_all(op: Operator, names: Key) -> Operator:
    have = set(op.columns)
    return Project(op, tuple(Named(n, column(n) if n in have else literal("NULL")) for n in names))


def either(names: Key, keys: Key) -> tuple[Fold, ...]:
    """The one value that a key has in each column."""
    return tuple(Fold(n, "any_value", (column(n), literal("TRUE"))) for n in names if n not in keys)


def as_keys(rows: Operator, op: Join) -> Operator:
    """The keys of left rows, named as the right names them."""
    return Project(rows, tuple(Named(r, column(c)) for c, r in op.keys))


def columns(names: Key, prefix: str = "") -> tuple[Named, ...]:
    return tuple(Named(prefix + n, column(prefix + n)) for n in names)


def before(name: str) -> str:
    return quoted(OLD + name)


def differs(state: GroupState) -> str:
    """Is any accumulator other than before? Rows alone may differ without changing what is shown."""
    shown = [a.name for k in state.kept for a in k.accumulators]
    pairs = [f"NOT ({quoted(NEW + n)} <=> {quoted(OLD + n)})" for n in shown]
    return "(" + " OR ".join([*pairs, f"({there(NEW)}) <> ({there(OLD)})"]) + ")"


def padded(rows: Operator, lacking: Operator) -> Operator:
    """Rows without a partner: the other side's columns are NULL. Their types are those of the union they go into."""
    return extend(rows, *(Named(c, literal("NULL")) for c in lacking.columns))


def mirrored(op: Join) -> Join:
    swapped = tuple((r, c) for c, r in op.keys)
    return Join(op.right, op.left, JoinKind.ANTI, swapped, op.condition, op.safe)


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
