"""Operators read no more columns than they need.

Spark prunes columns itself; local execution on the driver pays for every column that it reads and joins.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from tidemill.algebra import operators as ops
from tidemill.algebra.program import Program
from tidemill.algebra.properties import list_used_columns
from tidemill.algebra.rewrite.expand_scans import RunContext


def prune_program(program: Program, _: RunContext | None = None) -> Program:
    """The program over the columns that it needs, of channels and of its steps."""
    outputs = program.map_outputs(prune_operator)
    needed: dict[str, set[str]] = defaultdict(set)
    for rows in outputs.values():
        _collect_references(rows, needed)
    steps = {}
    for name, op in reversed(list(program.steps.items())):
        steps[name] = _prune_columns(op, needed[name])
        _collect_references(steps[name], needed)
    return Program({name: steps[name] for name in program.steps}, outputs)


def _collect_references(op: ops.Operator | None, needed: dict[str, set[str]]) -> None:
    for part in ops.walk_operators(op) if op else ():
        if isinstance(part, ops.StepReference):
            needed[part.step].update(part.columns)


def prune_operator(op: ops.Operator) -> ops.Operator:
    """The operator with all its columns, over the columns that it needs."""
    return _prune_columns(op, op.columns)


def _prune_columns(op: ops.Operator, names: Collection[str]) -> ops.Operator:
    """The operator with at least these of its columns, in the same order; it has at least one."""
    match op:
        case ops.Scan() | ops.BlockScan() | ops.StepReference():
            return replace(op, columns=_pick_names(op.columns, names))
        case ops.Projection():
            selected = _pick_names(op.columns, names)
            items = tuple(i for i in op.items if i.name in selected)
            pruned = ops.Projection(op.child, items)
            return replace(pruned, child=_prune_columns(op.child, list_used_columns(pruned)))
        case ops.Filter() | ops.Explode() | ops.TopN() | ops.WindowFunction():
            return replace(op, child=_prune_columns(op.child, {*names, *list_used_columns(op)}))
        case ops.Union():
            selected = _pick_names(op.columns, names)
            children = (_prune_columns(child, selected) for child in op.children)
            return ops.Union(tuple(c if c.columns == selected else ops.select_columns(c, selected) for c in children))
        case ops.Join():
            return _prune_join(op, names)
        case ops.Aggregation():
            grouped = replace(op, calls=tuple(f for f in op.calls if f.name in names))
            return replace(grouped, child=_prune_columns(op.child, list_used_columns(grouped)))
    return ops.map_children(op, prune_operator)


def _prune_join(op: ops.Join, names: Collection[str]) -> ops.Join:
    needed = {*names, *(op.condition.columns if op.condition is not None else ())}
    needed_right = needed if op.kind not in (ops.JoinKind.SEMI, ops.JoinKind.ANTI) else needed - {*op.left.columns}
    left, right = ({*needed, *op.left_keys}, {*needed_right, *op.right_keys})
    return replace(op, left=_prune_columns(op.left, left), right=_prune_columns(op.right, right))


def _pick_names(columns: tuple[str, ...], names: Collection[str]) -> tuple[str, ...]:
    return tuple(c for c in columns if c in names) or columns[:1]
