"""Simplification: what follows from steps that turned out empty."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tidemill.algebra.operators import Join, JoinKind, Operator, Ref, Union, children, rebuilt

_NEEDS_BOTH = (JoinKind.INNER, JoinKind.SEMI)


def simplified(op: Operator, empty: Collection[str]) -> Operator | None:
    """The operator without what is known to have no rows, given the steps that have none; None if nothing is left."""
    match op:
        case Ref():
            return None if op.step in empty else op
        case Union():
            left = [s for c in op.children if (s := simplified(c, empty)) is not None]
            return None if not left else (left[0] if len(left) == 1 else Union(tuple(left)))
        case Join():
            return _join(op, empty)
    if not children(op):
        return op
    (child,) = children(op)
    rest = simplified(child, empty)
    return None if rest is None else rebuilt(op, lambda _: rest)


def _join(op: Join, empty: Collection[str]) -> Operator | None:
    left, right = simplified(op.left, empty), simplified(op.right, empty)
    if left is None and op.kind not in (JoinKind.RIGHT, JoinKind.FULL):
        return None
    if right is None and op.kind in _NEEDS_BOTH:
        return None
    if right is None and op.kind is JoinKind.ANTI:
        return left
    # An outer join without one side still has that side's columns, so it is kept as it is.
    return replace(op, left=left or op.left, right=right or op.right)
