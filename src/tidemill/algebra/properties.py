"""Properties of an operator's rows that follow from the operator alone."""

from tidemill.algebra import operators as ops

Key = tuple[str, ...]


def find_keys(op: ops.Operator) -> tuple[Key, ...]:
    """Sets of columns that are unique in the rows, NULLs included; the simplest first."""
    match op:
        case ops.Scan():
            return (op.keys,) if op.keys else ()
        case ops.SingleRow():
            return ((),)
        case ops.Projection():
            return _rename_keys(op, find_keys(op.child))
        case ops.Filter() | ops.WindowFunction() | ops.TopN():
            return find_keys(op.child)
        case ops.Aggregation():
            return (op.keys,)
        case ops.Join():
            return _find_join_keys(op)
        case ops.GroupedMap() | ops.Union() | ops.Explode() | ops.StepReference() | ops.BlockScan() | ops.CustomMerge():
            return ()


def find_lasting_keys(op: ops.Operator) -> tuple[Key, ...]:
    """The keys that a row has even after it is removed: of joins, those of the left side, because it has no partner."""
    match op:
        case ops.Join():
            return tuple(k for k in find_lasting_keys(op.left) if k in find_keys(op))
        case ops.Projection():
            return _rename_keys(op, find_lasting_keys(op.child))
        case ops.Filter():
            return find_lasting_keys(op.child)
        case _:
            return find_keys(op)


def _rename_keys(op: ops.Projection, keys: tuple[Key, ...]) -> tuple[Key, ...]:
    """The keys of which the projection has all columns, in its names."""
    names = {i.value.column_name: i.name for i in reversed(op.items) if i.is_column}
    return tuple(tuple(names[c] for c in k) for k in keys if all(c in names for c in k))


def is_unique_on(op: ops.Operator, names: Key) -> bool:
    """Whether no two rows can agree on these columns."""
    return any(set(key) <= set(names) for key in find_keys(op))


def _find_join_keys(op: ops.Join) -> tuple[Key, ...]:
    left, right = find_keys(op.left), find_keys(op.right)
    if op.kind in (ops.JoinKind.SEMI, ops.JoinKind.ANTI):
        return left
    keys: list[Key] = []
    if op.kind in (ops.JoinKind.INNER, ops.JoinKind.LEFT) and is_unique_on(op.right, op.right_keys):
        keys += left
    if op.kind in (ops.JoinKind.INNER, ops.JoinKind.RIGHT) and is_unique_on(op.left, op.left_keys):
        keys += right
    if op.kind is ops.JoinKind.FULL:  # an unmatched row of one side has NULLs in the other side's key
        return ()
    return tuple(keys) or tuple((*a, *b) for a in left for b in right)


def is_append_only(op: ops.Operator, channel: str | None = None) -> bool:
    """Whether rows are only added and never removed if this channel changes; None: if any channel changes."""
    if _is_constant(op, channel):
        return True
    match op:
        case ops.Scan():
            return op.append_only
        case (
            ops.Projection()
            | ops.Filter()
            | ops.Explode()
            | ops.Union()
            | ops.Join(kind=ops.JoinKind.INNER | ops.JoinKind.SEMI)
        ):
            return all(is_append_only(child, channel) for child in ops.list_children(op))
        case ops.Join(kind=ops.JoinKind.LEFT | ops.JoinKind.ANTI):
            return _is_constant(op.right, channel) and is_append_only(op.left, channel)
        case ops.Aggregation():
            return not op.calls and is_append_only(op.child, channel)
        case _:
            return isinstance(op, ops.SingleRow)


def _is_constant(op: ops.Operator, channel: str | None) -> bool:
    """Whether changes of the channel leave the rows as they are."""
    return channel is not None and all(scan.channel != channel for scan in ops.list_scans(op))


def find_stray_column(op: ops.Operator) -> str | None:
    """A column that an operator uses although none of its children has it; None in a valid tree."""
    for part in ops.walk_operators(op):
        available = {c for child in ops.list_children(part) for c in child.columns}
        stray = sorted(list_used_columns(part) - available)
        if stray:
            return stray[0]
    return None


def list_used_columns(op: ops.Operator) -> set[str]:
    """The columns of its inputs that an operator computes with."""
    match op:
        case ops.Projection():
            return {c for item in op.items for c in item.value.columns}
        case ops.Filter():
            return set(op.condition.columns)
        case ops.Explode():
            return set(op.generator.columns)
        case ops.Join():
            return {*op.left_keys, *op.right_keys, *(op.condition.columns if op.condition else ())}
        case ops.Aggregation():
            return {*op.keys, *(c for call in op.calls for value in call.arguments for c in value.columns)}
        case ops.WindowFunction():
            values = [*(item.value for item in op.items), *([] if op.condition is None else [op.condition])]
            return {*op.partition, *(c for value in values for c in value.columns)} - {item.name for item in op.items}
        case ops.TopN():
            return {c for key in op.order for c in key.columns}
        case ops.GroupedMap():
            return set(op.keys)
        case ops.Scan() | ops.BlockScan() | ops.CustomMerge() | ops.SingleRow() | ops.StepReference() | ops.Union():
            return set()
