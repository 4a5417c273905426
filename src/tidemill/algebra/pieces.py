"""Building blocks of the derivation rules in `derive`."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.expression import build_column, build_literal, quote_name
from tidemill.algebra.operators import (
    AggregateCall,
    Aggregation,
    Filter,
    NamedExpression,
    Operator,
    Projection,
    Scan,
    Union,
    add_columns,
    rename_columns,
    walk_operators,
)
from tidemill.algebra.properties import Key
from tidemill.algebra.restrict import restrict_rows
from tidemill.algebra.states import GroupState, build_presence_condition

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


def restrict_to(rows: Operator, keys: Operator) -> Operator:
    """The rows that match a row of `keys` in all of its columns."""
    return restrict_rows(rows, keys, pair_columns(keys.columns))


def prefix_columns(op: Operator, prefix: str, exclude: Key) -> Projection:
    return rename_columns(op, {c: c if c in exclude else prefix + c for c in op.columns})


def compare_keys(new: Operator, old: Operator, keys: Key) -> Operator:
    """The distinct keys of both sides, marked whether they exist now (`_is`) and existed before (`_was`), as 1 or 0."""
    marks = (EXISTS_NOW, EXISTED_BEFORE)
    return Aggregation(
        tag_sides(new, old, marks), keys, tuple(AggregateCall(n, "max", (build_column(n),)) for n in marks)
    )


def tag_sides(left: Operator, right: Operator, names: tuple[str, str]) -> Operator:
    """All rows of both; in the columns of these names, those of the left side have 1 and 0, the others 0 and 1."""
    sides = []
    for i, rows in enumerate((left, right)):
        tags = zip(names, (f"{1 - i}", f"{i}"), strict=True)
        sides.append(add_columns(rows, *(NamedExpression(name, build_literal(tag)) for name, tag in tags)))
    return Union(tuple(sides))


def union_by_name(left: Operator, right: Operator) -> Operator:
    """All rows of both; a column that one side lacks is NULL there."""
    names = tuple(dict.fromkeys((*left.columns, *right.columns)))
    null = build_literal("NULL")
    sides = ((side, {c: build_column(c) for c in side.columns}) for side in (left, right))
    return Union(
        tuple(Projection(s, tuple(NamedExpression(n, known.get(n, null)) for n in names)) for s, known in sides)
    )


def take_any_values(names: Key, keys: Key) -> tuple[AggregateCall, ...]:
    """The only value that a key has in each column."""
    return tuple(
        AggregateCall(n, "any_value", (build_column(n), build_literal("TRUE"))) for n in names if n not in keys
    )


def build_change_condition(state: GroupState) -> str:
    """The condition that an accumulator changed. The row count alone may change without a change of the result."""
    names = [a.name for k in state.incremental_aggregates for a in k.accumulators]
    pairs = [f"NOT ({quote_name(NEW + n)} <=> {quote_name(OLD + n)})" for n in names]
    return "(" + " OR ".join([*pairs, f"({build_presence_condition(NEW)}) <> ({build_presence_condition(OLD)})"]) + ")"
