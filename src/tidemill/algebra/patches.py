"""Many-to-one joins, whose change may touch many rows at once.

In a join of many rows to one (pages to the score of their site), a change of a partner changes all rows that share it.
Such a result stores the partner's change itself, as a patch: one row with the new values of all these rows. A patch is
applied when the rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.algebra.expression import Expression, build_column, build_literal, quote_name, to_expression
from tidemill.algebra.operators import Filter, Join, JoinKind, NamedExpression, Operator, Projection, to_items
from tidemill.algebra.properties import Key, find_keys, is_unique_on
from tidemill.algebra.rewrite.merge_projections import compose_items
from tidemill.model.change import DELETED, PATCH


@dataclass(frozen=True, slots=True)
class ManyToOneJoin:
    """A many-to-one join as a result: the partner's columns, and the columns that identify a partner."""

    join: Join
    items: tuple[NamedExpression, ...]  # the result's columns, over those of the join
    key: Key
    partner_keys: Mapping[str, str]  # result column to the left key of the same value
    partner_columns: Mapping[
        str, Expression
    ]  # result column to its value, over the partner's columns and the left keys

    @property
    def is_inner(self) -> bool:
        return self.join.kind is JoinKind.INNER


def find_many_to_one(root: Operator) -> ManyToOneJoin | None:
    """The root as a many-to-one join; None if it is none."""
    items, below = _flatten_projections(root)
    if not isinstance(below, Join) or not _is_many_to_one(below):
        return None
    keys = [k for k in find_keys(Projection(below.left, items)) if k]
    by = {n: c for c, _ in below.keys for n in [_find_output_name(c, items)] if n is not None}
    columns = _find_partner_columns(below, items)
    if not keys or columns is None or not columns or len(by) < len(below.keys):
        return None
    return ManyToOneJoin(below, items, keys[0], by, columns)


def _is_many_to_one(op: Join) -> bool:
    to_one = set(op.right_keys) in [set(k) for k in find_keys(op.right)]
    kind_matches = op.kind in (JoinKind.INNER, JoinKind.LEFT)
    return (
        kind_matches and bool(op.keys) and op.condition is None and to_one and not is_unique_on(op.left, op.left_keys)
    )


def _flatten_projections(op: Operator) -> tuple[tuple[NamedExpression, ...], Operator]:
    """Nested projections merged into one."""
    if not isinstance(op, Projection):
        return (), op
    items, below = op.items, op.child
    while isinstance(below, Projection) and (composed := compose_items(items, below.items)) is not None:
        items, below = composed, below.child
    return items, below


def _find_output_name(name: str, items: tuple[NamedExpression, ...]) -> str | None:
    return next((i.name for i in items if i.value.column_name == name), None)


def _find_partner_columns(op: Join, items: tuple[NamedExpression, ...]) -> dict[str, Expression] | None:
    """The columns that depend on the partner; None if one depends on more of the left side than the keys."""
    constant = set(op.right_keys) if op.kind is JoinKind.INNER else set()  # a partner's key does not change
    columns: dict[str, Expression] = {}
    for item in items:
        used = item.value.columns
        if used <= {*op.left.columns, *constant}:
            continue
        if not used <= {*op.right.columns, *op.left_keys}:
            return None
        columns[item.name] = item.value
    return columns


def to_upserts(result: ManyToOneJoin, rows: Operator) -> Operator:
    return Projection(rows, (*result.items, *to_items((DELETED,)), NamedExpression(PATCH, build_literal("FALSE"))))


def to_patches(result: ManyToOneJoin, partners: Operator) -> Operator:
    """A partner's values for all rows that share it. Without the partner, an outer join's rows have NULLs; an inner
    join has no rows.

    NULL keys match no partner, unless the join is null-safe.
    """
    keys = result.join.keys
    not_null = " AND ".join(f"{quote_name(k)} IS NOT NULL" for _, k in keys)
    known = partners if result.join.null_safe else Filter(partners, to_expression(not_null))
    values = [
        (c, to_expression(f"CASE WHEN NOT {DELETED} THEN {quote_name(c)} END")) for c in result.join.right.columns
    ]
    inputs = [*((left, build_column(right)) for left, right in keys), *values, (DELETED, build_column(DELETED))]
    items: list[NamedExpression] = []
    for item in result.items:
        if item.name in result.partner_keys:
            items.append(NamedExpression(item.name, build_column(result.partner_keys[item.name])))
        elif item.name in result.partner_columns:
            items.append(item)
        else:
            items.append(NamedExpression(item.name, build_literal("NULL")))
    deletion = build_column(DELETED) if result.is_inner else build_literal("FALSE")
    marks = (NamedExpression(DELETED, deletion), NamedExpression(PATCH, build_literal("TRUE")))
    return Projection(Projection(known, tuple(NamedExpression(n, v) for n, v in inputs)), (*items, *marks))
