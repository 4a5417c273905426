"""Many-to-one joins, whose change may touch many rows at once.

In a join of many rows to one (pages to the score of their site), a change of a partner changes all rows that share it.
Such a result stores the partner's change itself, as a patch: one row with the new values of all these rows. A patch is
applied when the rows are read.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.algebra import operators as ops
from tidemill.algebra.expression import Expression, build_column, build_literal, quote_name
from tidemill.algebra.properties import Key, find_lasting_keys, is_unique_on
from tidemill.algebra.rewrite.merge_projections import compose_items
from tidemill.model.change import DELETED, PATCH


@dataclass(frozen=True, slots=True)
class ManyToOneJoin:
    """A many-to-one join as a result: the partner's columns, and the columns that identify a partner."""

    join: ops.Join
    items: tuple[ops.NamedExpression, ...]  # the result's columns, over those of the join
    key: Key
    partner_keys: Mapping[str, str]  # result column to the left key of the same value
    partner_columns: Mapping[str, Expression]  # result column to its value, over the partner's columns and left keys

    @property
    def is_inner(self) -> bool:
        return self.join.kind is ops.JoinKind.INNER


def find_many_to_one(root: ops.Operator) -> ManyToOneJoin | None:
    """The root as a many-to-one join; None if it is none."""
    items, below = _flatten_projections(root)
    if not isinstance(below, ops.Join) or not _is_many_to_one(below):
        return None
    keys = [k for k in find_lasting_keys(ops.Projection(below.left, items)) if k]
    names = {i.value.column_name: i.name for i in reversed(items)}
    by = {names[c]: c for c in below.left_keys if c in names}
    columns = _find_partner_columns(below, items)
    if not keys or not columns or len(by) < len(below.keys):
        return None
    return ManyToOneJoin(below, items, keys[0], by, columns)


def _is_many_to_one(op: ops.Join) -> bool:
    if op.kind not in (ops.JoinKind.INNER, ops.JoinKind.LEFT) or not op.keys or op.condition is not None:
        return False
    to_one = set(op.right_keys) in [set(k) for k in find_lasting_keys(op.right)]
    return to_one and not is_unique_on(op.left, op.left_keys)


def _flatten_projections(op: ops.Operator) -> tuple[tuple[ops.NamedExpression, ...], ops.Operator]:
    if not isinstance(op, ops.Projection):
        return (), op
    items, below = op.items, op.child
    while isinstance(below, ops.Projection) and (composed := compose_items(items, below.items)) is not None:
        items, below = composed, below.child
    return items, below


def _find_partner_columns(op: ops.Join, items: tuple[ops.NamedExpression, ...]) -> dict[str, Expression] | None:
    """The columns that depend on the partner; None if one depends on more of the left side than the keys."""
    constant = set(op.right_keys) if op.kind is ops.JoinKind.INNER else set()  # a partner's key does not change
    columns: dict[str, Expression] = {}
    for item in items:
        used = item.value.columns
        if used <= {*op.left.columns, *constant}:
            continue
        if not used <= {*op.right.columns, *op.left_keys}:
            return None
        columns[item.name] = item.value
    return columns


def to_upserts(result: ManyToOneJoin, rows: ops.Operator) -> ops.Operator:
    return ops.Projection(rows, (*result.items, *ops.name_values({DELETED: DELETED, PATCH: "FALSE"})))


def to_patches(result: ManyToOneJoin, partners: ops.Operator) -> ops.Operator:
    """A partner's values for all its rows, if any; NULL keys match no partner, unless the join is null-safe."""
    keys = result.join.keys
    not_null = " AND ".join(f"{quote_name(k)} IS NOT NULL" for _, k in keys)
    known = partners if result.join.null_safe else ops.filter_rows(partners, not_null)
    inputs: ops.Values = {left: build_column(right) for left, right in keys}
    values = {c: f"CASE WHEN NOT {DELETED} THEN {quote_name(c)} END" for c in result.join.right.columns}
    items: dict[str, Expression | str] = {i.name: build_literal("NULL") for i in result.items}
    items |= result.partner_columns
    items |= {name: build_column(key) for name, key in result.partner_keys.items()}
    items |= {DELETED: DELETED if result.is_inner else "FALSE", PATCH: "TRUE"}
    below = ops.Projection(known, ops.name_values({**inputs, **values, DELETED: DELETED}))
    return ops.Projection(below, ops.name_values(items))
