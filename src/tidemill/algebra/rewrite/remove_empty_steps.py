"""Parts of an operator that read only empty steps are removed, so that they need no execution."""

from collections.abc import Collection
from dataclasses import replace

from tidemill.algebra import operators as ops


def remove_empty_steps(op: ops.Operator, empty: Collection[str]) -> ops.Operator | None:
    """The operator without the parts that have no rows, given the empty steps; None if it has no rows."""
    match op:
        case ops.StepReference():
            return None if op.step in empty else op
        case ops.Union():
            return ops.union_all(remove_empty_steps(child, empty) for child in op.children)
        case ops.Join():
            return _simplify_join(op, empty)
    if isinstance(op, ops.CustomMerge) or not ops.list_children(op):
        return op
    (child,) = ops.list_children(op)
    simplified = remove_empty_steps(child, empty)
    return None if simplified is None else ops.map_children(op, lambda _: simplified)


def _simplify_join(op: ops.Join, empty: Collection[str]) -> ops.Operator | None:
    left, right = remove_empty_steps(op.left, empty), remove_empty_steps(op.right, empty)
    if left is None and op.kind not in (ops.JoinKind.RIGHT, ops.JoinKind.FULL):
        return None
    if right is None and op.kind in (ops.JoinKind.INNER, ops.JoinKind.SEMI):
        return None
    if right is None and op.kind is ops.JoinKind.ANTI:
        return left
    # An outer join without one side still has that side's columns, so that side stays.
    return replace(op, left=left or op.left, right=right or op.right)
