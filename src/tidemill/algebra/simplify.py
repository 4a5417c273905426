"""Simplification: what follows from steps that turned out empty, projections of projections, filters of windows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tidemill.algebra.expression import Expression, expression
from tidemill.algebra.operators import (
    Filter,
    Join,
    JoinKind,
    Named,
    Operator,
    Project,
    Ref,
    Union,
    Window,
    children,
    rebuilt,
)

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


def narrowed(op: Operator) -> Operator:
    """The operator with windows that keep only what is asked of them.

    Where the first few of a ranking are wanted, one row more moves all that follow it, and few or none that count.
    """
    made = rebuilt(op, narrowed)
    return (_kept(made.child, made.condition) or made) if isinstance(made, Filter) else made


def _kept(op: Operator, condition: Expression) -> Operator | None:
    """The rows of a window for which this holds, also behind a change of names; None if there is no window."""
    match op:
        case Window():
            both = condition if op.keep is None else expression(f"({op.keep}) AND ({condition})")
            return replace(op, keep=both)
        case Project():
            plain = {i.name: i.value.column for i in op.items if i.value.column is not None}
            below = _kept(op.child, condition.renamed(plain)) if condition.columns <= plain.keys() else None
            return below and replace(op, child=below)
        case _:
            return None


def squashed(op: Operator) -> Operator:
    """The operator with projections of projections as one, where no expression would be computed twice for it."""
    made = rebuilt(op, squashed)
    if isinstance(made, Project) and isinstance(made.child, Project):
        items = composed(made.items, made.child.items)
        return made if items is None else Project(made.child.child, items)
    return made


def composed(outer: tuple[Named, ...], inner: tuple[Named, ...]) -> tuple[Named, ...] | None:
    """The outer items over what the inner ones are over; None if that is not simply a matter of names."""
    below = {i.name: i.value for i in inner}
    plain = {name: value.column for name, value in below.items() if value.column is not None}
    made = []
    for item in outer:
        if item.value.column is not None:
            made.append(Named(item.name, below[item.value.column]))
        elif item.value.columns <= plain.keys():
            made.append(Named(item.name, item.value.renamed(plain)))
        else:
            return None
    computed = [i.value.column for i in outer if i.value.column is not None and i.value.column not in plain]
    return tuple(made) if len(computed) == len(set(computed)) else None
