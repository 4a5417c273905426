"""Building blocks of the derivation rules in `derive`, and upserts as operators."""

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
"""Prefixes of columns: the new value, the old value, and the added amount."""

EXISTS_NOW, EXISTED_BEFORE = "_is", "_was"
"""Columns that mark whether a key exists now, and existed before."""


def is_scan_only(op: Operator) -> bool:
    """Whether there are only projections and filters above its scans, so that restricting it early saves nothing."""
    return all(isinstance(o, Scan | Projection | Filter) for o in walk_operators(op))


def union_all(parts: Sequence[Operator]) -> Operator | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Union(tuple(parts))


def pair_columns(names: Key) -> tuple[tuple[str, str], ...]:
    return tuple((n, n) for n in names)


def prefix_columns(op: Operator, prefix: str, exclude: Key = ()) -> Projection:
    return rename_columns(op, {c: c if c in exclude else prefix + c for c in op.columns})


def compare_keys(new: Operator, old: Operator, keys: Key) -> Operator:
    """The distinct keys of both sides, marked whether they exist now (`_is`) and existed before (`_was`), as 1 or 0."""
    sides = [
        add_columns(
            rows,
            NamedExpression(EXISTS_NOW, build_literal(f"{1 - i}")),
            NamedExpression(EXISTED_BEFORE, build_literal(f"{i}")),
        )
        for i, rows in enumerate((new, old))
    ]
    return Aggregation(
        Union(tuple(sides)),
        keys,
        tuple(AggregateCall(n, "max", (build_column(n),)) for n in (EXISTS_NOW, EXISTED_BEFORE)),
    )


def union_by_name(left: Operator, right: Operator) -> Operator:
    """All rows of both; a column that one side lacks is NULL there."""
    names = tuple(dict.fromkeys((*left.columns, *right.columns)))
    return Union(tuple(pad_columns(side, names) for side in (left, right)))


def pad_columns(op: Operator, names: Key) -> Operator:
    existing = set(op.columns)
    return Projection(
        op, tuple(NamedExpression(n, build_column(n) if n in existing else build_literal("NULL")) for n in names)
    )


def take_any_values(names: Key, keys: Key) -> tuple[AggregateCall, ...]:
    """The only value that a key has in each column."""
    return tuple(
        AggregateCall(n, "any_value", (build_column(n), build_literal("TRUE"))) for n in names if n not in keys
    )


def to_right_keys(rows: Operator, op: Join) -> Operator:
    """The keys of left rows, under the right side's column names."""
    return Projection(rows, tuple(NamedExpression(r, build_column(c)) for c, r in op.keys))


def to_named_columns(names: Key, prefix: str = "") -> tuple[NamedExpression, ...]:
    return tuple(NamedExpression(prefix + n, build_column(prefix + n)) for n in names)


def quote_old_column(name: str) -> str:
    return quote_name(OLD + name)


def build_change_condition(state: GroupState) -> str:
    """The condition that an accumulator changed. The row count alone may change without a change of the result."""
    names = [a.name for k in state.incremental_aggregates for a in k.accumulators]
    pairs = [f"NOT ({quote_name(NEW + n)} <=> {quote_name(OLD + n)})" for n in names]
    return "(" + " OR ".join([*pairs, f"({build_presence_condition(NEW)}) <> ({build_presence_condition(OLD)})"]) + ")"


def pad_partner_columns(rows: Operator, partner: Operator) -> Operator:
    """Rows without a partner: the other side's columns are NULL, with the types of the surrounding union."""
    return add_columns(rows, *(NamedExpression(c, build_literal("NULL")) for c in partner.columns))


def mirror_anti_join(op: Join) -> Join:
    swapped = tuple((r, c) for c, r in op.keys)
    return Join(op.right, op.left, JoinKind.ANTI, swapped, op.condition, op.null_safe)


_LAST = "_last"


def merge_upserts(base: Operator, changes: Operator, key: Key) -> Operator:
    """The merged content: `changes` has the base's columns, then the deletion flag, then the order, from 1."""
    untouched = exclude_rows(base, select_columns(changes, key), tuple((k, k) for k in key))
    return Union((untouched, drop_deletions(pick_latest_rows(changes, key, changes.columns[-1]))))


def to_signed_rows(before: Operator, touched: Operator) -> Operator:
    """A change as signed rows: the new rows of its keys, unless deleted, and the rows that they had `before`."""
    added = add_columns(drop_deletions(touched), NamedExpression(COUNT, build_literal("1L")))
    return Union((added, add_columns(before, NamedExpression(COUNT, build_literal("-1L")))))


def pick_latest_rows(rows: Operator, key: Key, order: str) -> Operator:
    """The last row of each key by the order column, which is dropped."""
    names = tuple(c for c in rows.columns if c != order)
    values = [c for c in names if c not in key]
    row = to_expression(f"STRUCT({', '.join(map(quote_name, values))})")
    picked = Aggregation(rows, key, (AggregateCall(_LAST, "max_by", (row, build_column(order))),))
    fields = {n: Expression(f"{quote_name(_LAST)}.{quote_name(n)}", frozenset([_LAST])) for n in values}
    return Projection(picked, tuple(NamedExpression(n, fields.get(n, build_column(n))) for n in names))


def drop_deletions(rows: Operator) -> Operator:
    """The rows that are not deletions."""
    existing = Filter(rows, to_expression(f"NOT COALESCE({DELETED}, FALSE)"))
    return Projection(existing, tuple(NamedExpression(c, build_column(c)) for c in rows.columns if c != DELETED))
