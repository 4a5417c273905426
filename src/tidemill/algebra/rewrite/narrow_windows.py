"""Filters above windows become conditions of the windows.

If only the first rows of a ranking are selected, an added row shifts all later ranks, but few or none of the selected
rows. The state of a window holds the rows that satisfy its condition.
"""

from dataclasses import replace

from tidemill.algebra.expression import Expression, to_expression
from tidemill.algebra.operators import Filter, Operator, Projection, WindowFunction, map_children


def narrow_windows(op: Operator) -> Operator:
    """The operator with the filters above windows moved into them."""
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
            if not condition.columns <= names.keys():
                return None
            below = _filter_window(op.child, condition.rename_columns(names))
            return below and replace(op, child=below)
        case _:
            return None
