"""Simplification: what follows from steps that turned out empty, projections of projections, filters of windows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tidemill.algebra.expression import Expression, to_expression
from tidemill.algebra.operators import (
    Filter,
    Join,
    JoinKind,
    NamedExpression,
    Operator,
    Projection,
    StepReference,
    Union,
    WindowFunction,
    list_children,
    map_children,
)

_NEEDS_BOTH = (JoinKind.INNER, JoinKind.SEMI)


def remove_empty_steps(op: Operator, empty: Collection[str]) -> Operator | None:
    """The operator without what is known to have no rows, given the steps that have none; None if nothing is left."""
    match op:
        case StepReference():
            return None if op.step in empty else op
        case Union():
            left = [s for c in op.children if (s := remove_empty_steps(c, empty)) is not None]
            return None if not left else (left[0] if len(left) == 1 else Union(tuple(left)))
        case Join():
            return _simplify_join(op, empty)
    if not list_children(op):
        return op
    (child,) = list_children(op)
    rest = remove_empty_steps(child, empty)
    return None if rest is None else map_children(op, lambda _: rest)


def _simplify_join(op: Join, empty: Collection[str]) -> Operator | None:
    left, right = remove_empty_steps(op.left, empty), remove_empty_steps(op.right, empty)
    if left is None and op.kind not in (JoinKind.RIGHT, JoinKind.FULL):
        return None
    if right is None and op.kind in _NEEDS_BOTH:
        return None
    if right is None and op.kind is JoinKind.ANTI:
        return left
    # An outer join without one side still has that side's columns, so it is kept as it is.
    return replace(op, left=left or op.left, right=right or op.right)


def narrow_windows(op: Operator) -> Operator:
    """The operator with windows that keep only what is asked of them.

    Where the first few of a ranking are wanted, one row more moves all that follow it, and few or none that count.
    """
    made = map_children(op, narrow_windows)
    return (_filter_window(made.child, made.condition) or made) if isinstance(made, Filter) else made


def _filter_window(op: Operator, condition: Expression) -> Operator | None:
    """The rows of a window for which this holds, also behind a change of names; None if there is no window."""
    match op:
        case WindowFunction():
            both = condition if op.keep is None else to_expression(f"({op.keep}) AND ({condition})")
            return replace(op, keep=both)
        case Projection():
            plain = {i.name: i.value.column_name for i in op.items if i.value.column_name is not None}
            below = (
                _filter_window(op.child, condition.rename_columns(plain)) if condition.columns <= plain.keys() else None
            )
            return below and replace(op, child=below)
        case _:
            return None


def merge_projections(op: Operator) -> Operator:
    """The operator with projections of projections as one, where no expression would be computed twice for it."""
    made = map_children(op, merge_projections)
    if isinstance(made, Projection) and isinstance(made.child, Projection):
        items = compose_items(made.items, made.child.items)
        return made if items is None else Projection(made.child.child, items)
    return made


def compose_items(
    outer: tuple[NamedExpression, ...], inner: tuple[NamedExpression, ...]
) -> tuple[NamedExpression, ...] | None:
    """The outer items over what the inner ones are over; None if that is not simply a matter of names."""
    below = {i.name: i.value for i in inner}
    plain = {name: value.column_name for name, value in below.items() if value.column_name is not None}
    made = []
    for item in outer:
        if item.value.column_name is not None:
            made.append(NamedExpression(item.name, below[item.value.column_name]))
        elif item.value.columns <= plain.keys():
            made.append(NamedExpression(item.name, item.value.rename_columns(plain)))
        else:
            return None
    computed = [
        i.value.column_name for i in outer if i.value.column_name is not None and i.value.column_name not in plain
    ]
    return tuple(made) if len(computed) == len(set(computed)) else None
