"""Properties of an operator's rows that follow from the operator alone."""

from __future__ import annotations

from tidemill.algebra.operators import (
    Aggregation,
    BlockScan,
    CustomMerge,
    Explode,
    Filter,
    GroupedMap,
    Join,
    JoinKind,
    Operator,
    Projection,
    Scan,
    SingleRow,
    StepReference,
    TopN,
    Union,
    WindowFunction,
    list_children,
    list_scans,
    walk_operators,
)

Key = tuple[str, ...]


def find_keys(op: Operator) -> tuple[Key, ...]:
    """Sets of columns that are unique in the rows, NULLs included; the simplest first."""
    match op:
        case Scan():
            return (op.keys,) if op.keys else ()
        case SingleRow():
            return ((),)
        case Projection():
            names = {i.value.column_name: i.name for i in reversed(op.items) if i.is_column}
            keys = [k for k in find_keys(op.child) if all(c in names for c in k)]
            return tuple(tuple(names[c] for c in k) for k in keys)
        case Filter() | WindowFunction() | TopN():
            return find_keys(op.child)
        case Aggregation():
            return (op.keys,)
        case Join():
            return _find_join_keys(op)
        case GroupedMap() | Union() | Explode() | StepReference() | BlockScan() | CustomMerge():
            return ()


def is_unique_on(op: Operator, names: Key) -> bool:
    """Whether no two rows can agree on these columns."""
    return any(set(key) <= set(names) for key in find_keys(op))


def _find_join_keys(op: Join) -> tuple[Key, ...]:
    left, right = find_keys(op.left), find_keys(op.right)
    if op.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return left
    keys: list[Key] = []
    if op.kind in (JoinKind.INNER, JoinKind.LEFT) and is_unique_on(op.right, op.right_keys):
        keys += left
    if op.kind in (JoinKind.INNER, JoinKind.RIGHT) and is_unique_on(op.left, op.left_keys):
        keys += right
    if op.kind is JoinKind.FULL:  # an unmatched row of one side has NULLs in the other side's key
        return ()
    return tuple(keys) or tuple((*a, *b) for a in left for b in right)


def is_append_only(op: Operator) -> bool:
    """Whether a row, once present, is never removed: true of append channels and of operators that only add rows."""
    return _can_only_add(op, None)


def is_growing_by(op: Operator, channel: str) -> bool:
    """Whether changes of one channel only add rows, while all other channels stay as they are."""
    return _can_only_add(op, channel)


def _can_only_add(op: Operator, channel: str | None) -> bool:
    """Whether rows are only added if this channel changes; None: if any channel changes."""
    if _is_constant(op, channel):
        return True
    match op:
        case Scan():
            return op.append_only
        case Projection() | Filter() | Explode() | Union() | Join(kind=JoinKind.INNER | JoinKind.SEMI):
            return all(_can_only_add(child, channel) for child in list_children(op))
        case Join(kind=JoinKind.LEFT | JoinKind.ANTI):
            return _is_constant(op.right, channel) and _can_only_add(op.left, channel)
        case Aggregation():
            return not op.calls and _can_only_add(op.child, channel)
        case _:
            return isinstance(op, SingleRow)


def _is_constant(op: Operator, channel: str | None) -> bool:
    """Whether changes of the channel leave the rows as they are."""
    return channel is not None and all(scan.channel != channel for scan in list_scans(op))


def find_stray_column(op: Operator) -> str | None:
    """A column that an operator uses although none of its children has it; None in a valid tree."""
    for part in walk_operators(op):
        available = {c for child in list_children(part) for c in child.columns}
        stray = sorted(list_used_columns(part) - available)
        if stray:
            return stray[0]
    return None


def list_used_columns(op: Operator) -> set[str]:
    """The columns of its inputs that an operator computes with."""
    match op:
        case Projection():
            return {c for item in op.items for c in item.value.columns}
        case Filter():
            return set(op.condition.columns)
        case Explode():
            return set(op.generator.columns)
        case Join():
            return {*op.left_keys, *op.right_keys, *(op.condition.columns if op.condition else ())}
        case Aggregation():
            return {*op.keys, *(c for call in op.calls for value in call.arguments for c in value.columns)}
        case WindowFunction():
            values = [*(item.value for item in op.items), *([] if op.condition is None else [op.condition])]
            return {*op.partition, *(c for value in values for c in value.columns)} - {item.name for item in op.items}
        case TopN():
            return {c for key in op.order for c in key.columns}
        case GroupedMap():
            return set(op.keys)
        case Scan() | BlockScan() | CustomMerge() | SingleRow() | StepReference() | Union():
            return set()
