"""Restriction: only the rows whose keys are in a small set, pushed down as far as the operators allow.

A change touches few keys. Their rows are found by a semi join with those keys; pushed down to the scans, it keeps
irrelevant rows out of all operators above.
"""

from dataclasses import replace

from tidemill.algebra import operators as ops

Pairs = tuple[tuple[str, str], ...]
"""Columns of the restricted operator, each with the key column that it must equal; NULL equals NULL."""

_PRESERVES_LEFT = (ops.JoinKind.INNER, ops.JoinKind.LEFT, ops.JoinKind.SEMI, ops.JoinKind.ANTI)
_PRESERVES_RIGHT = (ops.JoinKind.INNER, ops.JoinKind.RIGHT)


def restrict_rows(op: ops.Operator, keys: ops.Operator, on: Pairs) -> ops.Operator:
    """The rows of `op` that match a row of `keys`."""
    pushed = _push_down(op, keys, on) if on else None
    return pushed if pushed is not None else ops.Join(op, keys, ops.JoinKind.SEMI, on, null_safe=True)


def exclude_rows(op: ops.Operator, keys: ops.Operator, on: Pairs) -> ops.Operator:
    """The rows of `op` that match no row of `keys`."""
    return ops.Join(op, keys, ops.JoinKind.ANTI, on, null_safe=True)


def _push_down(op: ops.Operator, keys: ops.Operator, on: Pairs) -> ops.Operator | None:
    names = {c for c, _ in on}
    match op:
        case ops.Projection():
            origin = {i.name: i.value.column_name for i in op.items}
            below = tuple((name, k) for c, k in on if (name := origin[c]) is not None)
            return replace(op, child=restrict_rows(op.child, keys, below)) if len(below) == len(on) else None
        case ops.Filter():
            return replace(op, child=restrict_rows(op.child, keys, on))
        case ops.Explode() if names <= set(op.child.columns):
            return replace(op, child=restrict_rows(op.child, keys, on))
        case ops.Aggregation() if names <= set(op.keys):
            return replace(op, child=restrict_rows(op.child, keys, on))
        case ops.WindowFunction() if names <= set(op.partition):
            return replace(op, child=restrict_rows(op.child, keys, on))
        case ops.Union():
            return ops.Union(tuple(restrict_rows(c, keys, on) for c in op.children))
        case ops.Join():
            return _push_into_join(op, keys, on)
        case _:
            return None


def _push_into_join(op: ops.Join, keys: ops.Operator, on: Pairs) -> ops.Operator | None:
    names = {c for c, _ in on}
    if names <= set(op.left.columns) and op.kind in _PRESERVES_LEFT:
        partner_keys = dict(op.keys)
        right = op.right
        if names <= set(op.left_keys):  # then the other side's rows must match as well
            right = restrict_rows(right, keys, tuple((partner_keys[c], k) for c, k in on))
        return replace(op, left=restrict_rows(op.left, keys, on), right=right)
    if names <= set(op.right.columns) and op.kind in _PRESERVES_RIGHT:
        partner_keys = {r: c for c, r in op.keys}
        left = op.left
        if names <= set(op.right_keys):
            left = restrict_rows(left, keys, tuple((partner_keys[c], k) for c, k in on))
        return replace(op, left=left, right=restrict_rows(op.right, keys, on))
    return None
