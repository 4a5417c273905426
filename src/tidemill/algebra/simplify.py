"""Simplification of operators: empty steps, nested projections, filters over windows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tidemill.algebra.expression import Expression, to_expression
from tidemill.algebra.operators import (
    CustomMerge,
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
    """The operator without the parts that have no rows, given the empty steps; None if it has no rows."""
    match op:
        case StepReference():
            return None if op.step in empty else op
        case Union():
            children = [s for c in op.children if (s := remove_empty_steps(c, empty)) is not None]
            return None if not children else (children[0] if len(children) == 1 else Union(tuple(children)))
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
    if right is None and op.kind in _NEEDS_BOTH:
        return None
    if right is None and op.kind is JoinKind.ANTI:
        return left
    # An outer join without one side still has that side's columns, so that side stays.
    return replace(op, left=left or op.left, right=right or op.right)


def narrow_windows(op: Operator) -> Operator:
    """The operator with the filters above windows moved into them.

    If only the first rows of a ranking are selected, an added row shifts all later ranks, but few or none of the
    selected rows.
    """
    mapped = map_children(op, narrow_windows)
    return (_filter_window(mapped.child, mapped.condition) or mapped) if isinstance(mapped, Filter) else mapped


def _filter_window(op: Operator, condition: Expression) -> Operator | None:
    """The window restricted by the condition, also below a renaming; None if there is no window."""
    match op:
        case WindowFunction():
            combined = condition if op.condition is None else to_expression(f"({op.condition}) AND ({condition})")
            return replace(op, condition=combined)
        case Projection():
            names = {i.name: i.value.column_name for i in op.items if i.value.column_name is not None}
            below = (
                _filter_window(op.child, condition.rename_columns(names)) if condition.columns <= names.keys() else None
            )
            return below and replace(op, child=below)
        case _:
            return None


def merge_projections(op: Operator) -> Operator:
    """The operator with nested projections merged, where no expression would be computed twice."""
    mapped = map_children(op, merge_projections)
    if isinstance(mapped, Projection) and isinstance(mapped.child, Projection):
        items = compose_items(mapped.items, mapped.child.items)
        return mapped if items is None else Projection(mapped.child.child, items)
    return mapped


def compose_items(
    outer: tuple[NamedExpression, ...], inner: tuple[NamedExpression, ...]
) -> tuple[NamedExpression, ...] | None:
    """The outer items over the inputs of the inner items; None if that needs more than renaming columns."""
    below = {i.name: i.value for i in inner}
    names = {name: value.column_name for name, value in below.items() if value.column_name is not None}
    composed = []
    for item in outer:
        if item.value.column_name is not None:
            composed.append(NamedExpression(item.name, below[item.value.column_name]))
        elif item.value.columns <= names.keys():
            composed.append(NamedExpression(item.name, item.value.rename_columns(names)))
        else:
            return None
    computed = [
        i.value.column_name for i in outer if i.value.column_name is not None and i.value.column_name not in names
    ]
    return tuple(composed) if len(computed) == len(set(computed)) else None
