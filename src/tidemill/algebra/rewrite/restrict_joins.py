"""Groups below a join with a change are computed for the keys of the change only."""

from dataclasses import replace

from tidemill.algebra import operators as ops
from tidemill.algebra.restrict import Pairs, restrict_rows

_NEEDS_LEFT = (ops.JoinKind.INNER, ops.JoinKind.LEFT, ops.JoinKind.SEMI, ops.JoinKind.ANTI)
_NEEDS_RIGHT = (ops.JoinKind.INNER, ops.JoinKind.RIGHT, ops.JoinKind.SEMI)
"""Joins that have no row without one on that side."""


def restrict_joins(op: ops.Operator) -> ops.Operator:
    """Each grouped side of a join restricted to the keys of the other, if that is small; engines order plain joins."""
    mapped = ops.map_children(op, restrict_joins)
    if not isinstance(mapped, ops.Join) or not mapped.keys:
        return mapped
    left, right, keys = mapped.left, mapped.right, mapped.keys
    if mapped.kind in _NEEDS_LEFT and is_change_sized(left) and _is_grouped(right):
        pairs = tuple((r, k) for k, r in keys)
        return replace(mapped, right=_restrict_side(right, ops.select_columns(left, mapped.left_keys), pairs))
    if mapped.kind in _NEEDS_RIGHT and is_change_sized(right) and _is_grouped(left):
        return replace(mapped, left=_restrict_side(left, ops.select_columns(right, mapped.right_keys), keys))
    return mapped


def is_change_sized(op: ops.Operator) -> bool:
    """Whether it is computed from the rows of a change or of steps, not of whole contents."""
    match op:
        case ops.BlockScan():
            return op.is_change
        case ops.Join(kind=ops.JoinKind.INNER | ops.JoinKind.SEMI) if op.keys:
            return is_change_sized(op.left) or is_change_sized(op.right)
        case ops.Join(kind=ops.JoinKind.LEFT | ops.JoinKind.SEMI | ops.JoinKind.ANTI):
            return is_change_sized(op.left)
        case _:
            return all(map(is_change_sized, ops.list_children(op)))


def _restrict_side(op: ops.Operator, keys: ops.Operator, on: Pairs) -> ops.Operator:
    restricted = restrict_rows(op, keys, on)
    return op if isinstance(restricted, ops.Join) and restricted.left is op else restricted  # no rows would be saved


def _is_grouped(op: ops.Operator) -> bool:
    """Whether more rows than those of a change are grouped, or joined in a way that fixes the order of joins."""
    match op:
        case ops.Aggregation() | ops.WindowFunction() | ops.TopN() if not is_change_sized(op):
            return True
        case ops.Join() if op.kind is not ops.JoinKind.INNER and not any(map(is_change_sized, (op.left, op.right))):
            return True
    return any(map(_is_grouped, ops.list_children(op)))
