"""Pruning: no more columns than are asked for.

Spark sees to it itself; what the driver reads and joins by hand costs by the column.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace

from tidemill.algebra.expression import Expression, expression
from tidemill.algebra.operators import (
    Explode,
    Filter,
    Group,
    Join,
    JoinKind,
    Operator,
    Project,
    Ref,
    Scan,
    Top,
    Union,
    Window,
    rebuilt,
    select,
    walk,
)
from tidemill.algebra.program import Output, Program


def pruned(program: Program) -> Program:
    """The program over as few columns as it needs, of channels and of its own steps."""
    outputs = tuple(Output(o.channel, o.rows and with_needed_columns(o.rows), o.updates) for o in program.outputs)
    asked: dict[str, set[str]] = defaultdict(set)
    for output in outputs:
        _ask(output.rows, asked)
    steps = {}
    for name, op in reversed(list(program.steps.items())):
        steps[name] = _of(op, asked[name])
        _ask(steps[name], asked)
    return Program({name: steps[name] for name in program.steps}, outputs)


def _ask(op: Operator | None, asked: dict[str, set[str]]) -> None:
    for part in walk(op) if op else ():
        if isinstance(part, Ref):
            asked[part.step].update(part.columns)


def with_needed_columns(op: Operator) -> Operator:
    """The operator with all its columns, over as few as it needs."""
    return _of(op, op.columns)


def _of(op: Operator, names: Collection[str]) -> Operator:
    """The operator with at least these of its columns, in the same order; it keeps at least one."""
    match op:
        case Scan() | Ref():
            return replace(op, columns=_among(op.columns, names))
        case Project():
            kept = _among(op.columns, names)
            items = tuple(i for i in op.items if i.name in kept)
            return Project(_of(op.child, _read(i.value for i in items)), items)
        case Filter():
            return replace(op, child=_of(op.child, {*names, *op.condition.columns}))
        case Explode():
            return replace(op, child=_of(op.child, {*names, *op.generator.columns}))
        case Union():
            kept = _among(op.columns, names)
            return Union(tuple(_exactly(_of(child, kept), kept) for child in op.children))
        case Join():
            return _join(op, names)
        case Group():
            folds = tuple(f for f in op.folds if f.name in names)
            calls = (expression(f.text) for f in folds if f.text)
            needed = {*op.keys, *_read(a for f in folds for a in f.arguments), *_read(calls)}
            return Group(_of(op.child, needed), op.keys, folds)
        case Top():
            return replace(op, child=_of(op.child, {*names, *_read(op.order)}))
        case Window():
            values = [*(i.value for i in op.items), *([] if op.keep is None else [op.keep])]
            needed = {*names, *op.partition, *_read(values)}
            return replace(op, child=_of(op.child, needed))
    return rebuilt(op, with_needed_columns)


def _join(op: Join, names: Collection[str]) -> Join:
    asked = {*names, *(op.condition.columns if op.condition is not None else ())}
    theirs = asked if op.kind not in (JoinKind.SEMI, JoinKind.ANTI) else asked - {*op.left.columns}
    return replace(op, left=_of(op.left, {*asked, *op.left_keys}), right=_of(op.right, {*theirs, *op.right_keys}))


def _among(columns: tuple[str, ...], names: Collection[str]) -> tuple[str, ...]:
    return tuple(c for c in columns if c in names) or columns[:1]


def _exactly(op: Operator, names: tuple[str, ...]) -> Operator:
    return op if op.columns == names else select(op, names)


def _read(values: Iterable[Expression]) -> set[str]:
    return {name for value in values for name in value.columns}
