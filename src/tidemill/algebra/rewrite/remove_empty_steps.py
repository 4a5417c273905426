"""Parts of an operator that read only empty steps are removed, so that they need no execution."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tidemill.algebra.operators import (
    CustomMerge,
    Join,
    JoinKind,
    Operator,
    StepReference,
    Union,
    list_children,
    map_children,
    union_all,
)


def remove_empty_steps(op: Operator, empty: Collection[str]) -> Operator | None:
    """The operator without the parts that have no rows, given the empty steps; None if it has no rows."""
    match op:
        case StepReference():
            return None if op.step in empty else op
        case Union():
            return union_all([s for c in op.children if (s := remove_empty_steps(c, empty)) is not None])
        case Join():
            return _simplify_join(op, empty)
    if isinstance(op, CustomMerge) or not list_children(op):
        return op
    (child,) = list_children(op)
    simplified = remove_empty_steps(child, empty)
    return None if simplified is None else map_children(op, lambda _: simplified)


def _simplify_join(op: Join, empty: Collection[str]) -> Operator | None:
    left, right = remove_empty_steps(op.left, empty), remove_empty_steps(op.right, empty)
    if left is None and op.kind not in (JoinKind.RIGHT, JoinKind.FULL):
        return None
    if right is None and op.kind in (JoinKind.INNER, JoinKind.SEMI):
        return None
    if right is None and op.kind is JoinKind.ANTI:
        return left
    # An outer join without one side still has that side's columns, so that side stays.
    return replace(op, left=left or op.left, right=right or op.right)
