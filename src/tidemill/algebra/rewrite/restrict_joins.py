"""Groups below a join with a change are computed for the keys of the change only."""

from __future__ import annotations

from dataclasses import replace

from tidemill.algebra.operators import (
    Aggregation,
    BlockScan,
    Join,
    JoinKind,
    Operator,
    TopN,
    WindowFunction,
    list_children,
    map_children,
    select_columns,
)
from tidemill.algebra.restrict import Pairs, restrict_rows

_NEEDS_LEFT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
_NEEDS_RIGHT = (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI)
"""Joins that have no row without one on that side."""


def restrict_joins(op: Operator) -> Operator:
    """The operator with each side of a join that is grouped restricted to the keys of the other side, if that is small:
    then the rows that find no partner are not grouped. An engine orders plain joins itself.
    """
    mapped = map_children(op, restrict_joins)
    if not isinstance(mapped, Join) or not mapped.keys:
        return mapped
    left, right, keys = mapped.left, mapped.right, mapped.keys
    if mapped.kind in _NEEDS_LEFT and is_change_sized(left) and _is_grouped(right):
        pairs = tuple((r, k) for k, r in keys)
        return replace(mapped, right=_restrict_side(right, select_columns(left, mapped.left_keys), pairs))
    if mapped.kind in _NEEDS_RIGHT and is_change_sized(right) and _is_grouped(left):
        return replace(mapped, left=_restrict_side(left, select_columns(right, mapped.right_keys), keys))
    return mapped


def is_change_sized(op: Operator) -> bool:
    """Whether it is computed from the rows of a change or of steps, not of whole contents."""
    match op:
        case BlockScan():
            return op.is_change
        case Join(kind=JoinKind.INNER | JoinKind.SEMI) if op.keys:
            return is_change_sized(op.left) or is_change_sized(op.right)
        case Join(kind=JoinKind.LEFT | JoinKind.SEMI | JoinKind.ANTI):
            return is_change_sized(op.left)
        case _:
            return all(map(is_change_sized, list_children(op)))


def _restrict_side(op: Operator, keys: Operator, on: Pairs) -> Operator:
    restricted = restrict_rows(op, keys, on)
    return op if isinstance(restricted, Join) and restricted.left is op else restricted  # no rows would be saved


def _is_grouped(op: Operator) -> bool:
    """Whether more rows than those of a change are grouped, or joined in a way that fixes the order of joins."""
    match op:
        case Aggregation() | WindowFunction() | TopN() if not is_change_sized(op):
            return True
        case Join() if op.kind is not JoinKind.INNER and not any(map(is_change_sized, (op.left, op.right))):
            return True
    return any(map(_is_grouped, list_children(op)))
