"""Column pruning: no more columns than are needed.

Spark prunes columns itself; local execution on the driver pays for every column that it reads and joins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace

from tidemill.algebra.expression import Expression, to_expression
from tidemill.algebra.operators import (
    Aggregation,
    BlockScan,
    Explode,
    Filter,
    Join,
    JoinKind,
    Operator,
    Projection,
    Scan,
    StepReference,
    TopN,
    Union,
    WindowFunction,
    map_children,
    select_columns,
    walk_operators,
)
from tidemill.algebra.program import Program, ProgramOutput


def prune_program(program: Program) -> Program:
    """The program over the columns that it needs, of channels and of its steps."""
    outputs = tuple(ProgramOutput(o.channel, o.rows and prune_operator(o.rows), o.updates) for o in program.outputs)
    needed: dict[str, set[str]] = defaultdict(set)
    for output in outputs:
        _collect_references(output.rows, needed)
    steps = {}
    for name, op in reversed(list(program.steps.items())):
        steps[name] = _prune_columns(op, needed[name])
        _collect_references(steps[name], needed)
    return Program({name: steps[name] for name in program.steps}, outputs)


def _collect_references(op: Operator | None, needed: dict[str, set[str]]) -> None:
    for part in walk_operators(op) if op else ():
        if isinstance(part, StepReference):
            needed[part.step].update(part.columns)


def prune_operator(op: Operator) -> Operator:
    """The operator with all its columns, over the columns that it needs."""
    return _prune_columns(op, op.columns)


def _prune_columns(op: Operator, names: Collection[str]) -> Operator:
    """The operator with at least these of its columns, in the same order; it has at least one."""
    match op:
        case Scan() | BlockScan() | StepReference():
            return replace(op, columns=_pick_names(op.columns, names))
        case Projection():
            selected = _pick_names(op.columns, names)
            items = tuple(i for i in op.items if i.name in selected)
            return Projection(_prune_columns(op.child, _list_columns_read(i.value for i in items)), items)
        case Filter():
            return replace(op, child=_prune_columns(op.child, {*names, *op.condition.columns}))
        case Explode():
            return replace(op, child=_prune_columns(op.child, {*names, *op.generator.columns}))
        case Union():
            selected = _pick_names(op.columns, names)
            return Union(tuple(_select_exactly(_prune_columns(child, selected), selected) for child in op.children))
        case Join():
            return _prune_join(op, names)
        case Aggregation():
            aggregates = tuple(f for f in op.calls if f.name in names)
            calls = (to_expression(f.text) for f in aggregates if f.text)
            needed = {
                *op.keys,
                *_list_columns_read(a for f in aggregates for a in f.arguments),
                *_list_columns_read(calls),
            }
            return Aggregation(_prune_columns(op.child, needed), op.keys, aggregates)
        case TopN():
            return replace(op, child=_prune_columns(op.child, {*names, *_list_columns_read(op.order)}))
        case WindowFunction():
            values = [*(i.value for i in op.items), *([] if op.condition is None else [op.condition])]
            needed = {*names, *op.partition, *_list_columns_read(values)}
            return replace(op, child=_prune_columns(op.child, needed))
    return map_children(op, prune_operator)


def _prune_join(op: Join, names: Collection[str]) -> Join:
    needed = {*names, *(op.condition.columns if op.condition is not None else ())}
    needed_right = needed if op.kind not in (JoinKind.SEMI, JoinKind.ANTI) else needed - {*op.left.columns}
    return replace(
        op,
        left=_prune_columns(op.left, {*needed, *op.left_keys}),
        right=_prune_columns(op.right, {*needed_right, *op.right_keys}),
    )


def _pick_names(columns: tuple[str, ...], names: Collection[str]) -> tuple[str, ...]:
    return tuple(c for c in columns if c in names) or columns[:1]


def _select_exactly(op: Operator, names: tuple[str, ...]) -> Operator:
    return op if op.columns == names else select_columns(op, names)


def _list_columns_read(values: Iterable[Expression]) -> set[str]:
    return {name for value in values for name in value.columns}
