"""Pieces of derived operators: what several rules of `derive` are made of, and upserts as operators."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.expression import Expression, build_column, build_literal, quote_name, to_expression
from tidemill.algebra.operators import (
    AggregateCall,
    Aggregation,
    Filter,
    Join,
    JoinKind,
    NamedExpression,
    Operator,
    Projection,
    Scan,
    Union,
    add_columns,
    rename_columns,
    select_columns,
    walk_operators,
)
from tidemill.algebra.properties import Key
from tidemill.algebra.restrict import exclude_rows
from tidemill.algebra.states import GroupState, build_presence_condition
from tidemill.model.change import COUNT, DELETED

NEW, OLD, ADDED = "new.", "old.", "added."
"""In front of a column: as it is now, as it was, and what was added to it."""

IS, WAS = "_is", "_was"
"""Columns that say whether something is there now, and was before."""


def is_scan_only(op: Operator) -> bool:
    """Is there nothing between its scans and its rows that a restriction would spare?"""
    return all(isinstance(o, Scan | Projection | Filter) for o in walk_operators(op))


def union_all(parts: Sequence[Operator]) -> Operator | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Union(tuple(parts))


def pair_columns(names: Key) -> tuple[tuple[str, str], ...]:
    return tuple((n, n) for n in names)


def prefix_columns(op: Operator, prefix: str, but: Key = ()) -> Projection:
    return rename_columns(op, {c: c if c in but else prefix + c for c in op.columns})


def compare_keys(now: Operator, was: Operator, keys: Key) -> Operator:
    """The keys of either side once, with whether they are now (`_is`) and were before (`_was`), as 1 or 0."""
    sides = [
        add_columns(rows, NamedExpression(IS, build_literal(f"{1 - i}")), NamedExpression(WAS, build_literal(f"{i}")))
        for i, rows in enumerate((now, was))
    ]
    return Aggregation(Union(tuple(sides)), keys, tuple(AggregateCall(n, "max", (build_column(n),)) for n in (IS, WAS)))


def union_by_name(left: Operator, right: Operator) -> Operator:
    """All rows of both; what one side has not is NULL."""
    names = tuple(dict.fromkeys((*left.columns, *right.columns)))
    return Union(tuple(pad_columns(side, names) for side in (left, right)))


def pad_columns(op: Operator, names: Key) -> Operator:
    have = set(op.columns)
    return Projection(
        op, tuple(NamedExpression(n, build_column(n) if n in have else build_literal("NULL")) for n in names)
    )


def take_any_values(names: Key, keys: Key) -> tuple[AggregateCall, ...]:
    """The one value that a key has in each column."""
    return tuple(
        AggregateCall(n, "any_value", (build_column(n), build_literal("TRUE"))) for n in names if n not in keys
    )


def to_right_keys(rows: Operator, op: Join) -> Operator:
    """The keys of left rows, named as the right names them."""
    return Projection(rows, tuple(NamedExpression(r, build_column(c)) for c, r in op.keys))


def to_named_columns(names: Key, prefix: str = "") -> tuple[NamedExpression, ...]:
    return tuple(NamedExpression(prefix + n, build_column(prefix + n)) for n in names)


def quote_old_column(name: str) -> str:
    return quote_name(OLD + name)


def build_change_condition(state: GroupState) -> str:
    """Is any accumulator other than before? Rows alone may differ without changing what is shown."""
    shown = [a.name for k in state.incremental_aggregates for a in k.accumulators]
    pairs = [f"NOT ({quote_name(NEW + n)} <=> {quote_name(OLD + n)})" for n in shown]
    return "(" + " OR ".join([*pairs, f"({build_presence_condition(NEW)}) <> ({build_presence_condition(OLD)})"]) + ")"


def pad_partner_columns(rows: Operator, lacking: Operator) -> Operator:
    """Rows without a partner: the other side's columns are NULL. Their types are those of the union they go into."""
    return add_columns(rows, *(NamedExpression(c, build_literal("NULL")) for c in lacking.columns))


def mirror_anti_join(op: Join) -> Join:
    swapped = tuple((r, c) for c, r in op.keys)
    return Join(op.right, op.left, JoinKind.ANTI, swapped, op.condition, op.safe)


_LAST = "_last"


def merge_upserts(base: Operator, changes: Operator, key: Key) -> Operator:
    """The content: `changes` has the base's columns, then whether a row is a deletion, then its order, from 1 on."""
    kept = exclude_rows(base, select_columns(changes, key), tuple((k, k) for k in key))
    return Union((kept, drop_deletions(pick_latest_rows(changes, key, changes.columns[-1]))))


def to_signed_rows(before: Operator, touched: Operator) -> Operator:
    """A change in signed rows: what its keys have now, unless they are deleted, and what they had `before`."""
    now = add_columns(drop_deletions(touched), NamedExpression(COUNT, build_literal("1L")))
    return Union((now, add_columns(before, NamedExpression(COUNT, build_literal("-1L")))))


def pick_latest_rows(rows: Operator, key: Key, order: str) -> Operator:
    """Of each key the row that is last in the order, which is left out."""
    names = tuple(c for c in rows.columns if c != order)
    rest = [c for c in names if c not in key]
    row = to_expression(f"STRUCT({', '.join(map(quote_name, rest))})")
    picked = Aggregation(rows, key, (AggregateCall(_LAST, "max_by", (row, build_column(order))),))
    fields = {n: Expression(f"{quote_name(_LAST)}.{quote_name(n)}", frozenset([_LAST])) for n in rest}
    return Projection(picked, tuple(NamedExpression(n, fields.get(n, build_column(n))) for n in names))


def drop_deletions(rows: Operator) -> Operator:
    """The rows that are no deletions."""
    kept = Filter(rows, to_expression(f"NOT COALESCE({DELETED}, FALSE)"))
    return Projection(kept, tuple(NamedExpression(c, build_column(c)) for c in rows.columns if c != DELETED))
