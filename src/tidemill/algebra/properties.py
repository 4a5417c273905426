"""What can be known of an operator's rows without seeing them."""

from __future__ import annotations

from tidemill.algebra.operators import (
    Apply,
    Explode,
    Filter,
    Group,
    Join,
    JoinKind,
    One,
    Operator,
    Project,
    Ref,
    Scan,
    Top,
    Union,
    Window,
    children,
    walk,
)

Key = tuple[str, ...]


def keys_of(op: Operator) -> tuple[Key, ...]:
    """Sets of columns of which no two rows have the same values, NULLs included; the simplest first."""
    match op:
        case Scan():
            return (op.keys,) if op.keys else ()
        case One():
            return ((),)
        case Project():
            names = {i.value.column: i.name for i in reversed(op.items) if i.plain}
            kept = [k for k in keys_of(op.child) if all(c in names for c in k)]
            return tuple(tuple(names[c] for c in k) for k in kept)
        case Filter() | Window() | Top():
            return keys_of(op.child)
        case Group():
            return (op.keys,)
        case Join():
            return _join_keys(op)
        case Apply() | Union() | Explode() | Ref():
            return ()


def unique_on(op: Operator, names: Key) -> bool:
    """Can no two rows agree on these columns?"""
    return any(set(key) <= set(names) for key in keys_of(op))


def _join_keys(op: Join) -> tuple[Key, ...]:
    left, right = keys_of(op.left), keys_of(op.right)
    if op.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return left
    found: list[Key] = []
    if op.kind in (JoinKind.INNER, JoinKind.LEFT) and unique_on(op.right, op.right_keys):
        found += left
    if op.kind in (JoinKind.INNER, JoinKind.RIGHT) and unique_on(op.left, op.left_keys):
        found += right
    if op.kind is JoinKind.FULL:  # a row of either side alone may be NULL throughout the other's key
        return ()
    return tuple(found) or tuple((*a, *b) for a in left for b in right)


def grows(op: Operator) -> bool:
    """Is a row, once there, there for good? True of append channels and of what only adds to them."""
    match op:
        case Scan():
            return op.append
        case One():
            return True
        case Project() | Filter() | Explode():
            return grows(op.child)
        case Union():
            return all(map(grows, op.children))
        case Join(kind=JoinKind.INNER | JoinKind.SEMI):
            return grows(op.left) and grows(op.right)
        case Group():
            return not op.folds and grows(op.child)
        case _:
            return False


def find_stray_column(op: Operator) -> str | None:
    """A column that some operator of a tree uses although nothing below makes it; None in a sound tree."""
    for each in walk(op):
        there = {c for child in children(each) for c in child.columns}
        stray = sorted(_columns_used(each) - there)
        if stray:
            return stray[0]
    return None


def _columns_used(op: Operator) -> set[str]:
    match op:
        case Project():
            return {c for item in op.items for c in item.value.columns}
        case Filter():
            return set(op.condition.columns)
        case Explode():
            return set(op.generator.columns)
        case Join():
            return {*op.left_keys, *op.right_keys, *(op.condition.columns if op.condition else ())}
        case Group():
            return {*op.keys, *(c for fold in op.folds for value in fold.arguments for c in value.columns)}
        case Window():
            return {*op.partition, *(c for item in op.items for c in item.value.columns)}
        case Top():
            return {c for key in op.order for c in key.columns}
        case Apply():
            return set(op.keys)
        case Scan() | One() | Ref() | Union():
            return set()
