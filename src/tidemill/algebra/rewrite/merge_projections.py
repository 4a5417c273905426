"""Nested projections become one, where no expression would be computed twice."""

from tidemill.algebra.operators import NamedExpression, Operator, Projection, map_children


def merge_projections(op: Operator) -> Operator:
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
    composed: list[NamedExpression] = []
    computed: list[str] = []
    for item in outer:
        column = item.value.column_name
        if column is not None:
            composed.append(NamedExpression(item.name, below[column]))
            computed += [] if column in names else [column]
        elif item.value.columns <= names.keys():
            composed.append(NamedExpression(item.name, item.value.rename_columns(names)))
        else:
            return None
    return tuple(composed) if len(computed) == len(set(computed)) else None
