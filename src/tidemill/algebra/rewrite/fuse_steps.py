"""Operators that only select and compute row by row from a step are computed along with it, as slices of its rows.

For a small change, the number of steps determines the cost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidemill.algebra import operators as ops
from tidemill.algebra.expression import Expression, quote_name, to_expression
from tidemill.algebra.program import Program
from tidemill.algebra.rewrite.expand_scans import RunContext


@dataclass(frozen=True, slots=True)
class StepSlice:
    """Some rows and columns of a step: the rows for which all columns of `conditions` are true."""

    step: str
    conditions: tuple[str, ...]
    columns: Mapping[str, str]  # to the step's columns


@dataclass(frozen=True, slots=True)
class FusedProgram:
    """A program in which slices of steps replace the operators that were computed along with them."""

    steps: Mapping[str, ops.Operator]
    slices: Mapping[str, StepSlice]  # by the names of the steps that need no separate computation
    outputs: Mapping[str, tuple[StepSlice | ops.Operator, ...]]  # the parts of each channel's rows


def fuse_steps(program: Program, _: RunContext | None = None) -> FusedProgram:
    """The same program with a minimal number of steps: only joins and groups need separate ones."""
    fuser = _StepFuser()
    for name, op in program.steps.items():
        part = fuser.find_slice(op)
        if part is None:
            fuser.steps[name] = op
        else:
            fuser.slices[name] = part
    outputs = {
        channel: () if rows is None else tuple(fuser.find_slice(p) or p for p in _split_union(rows))
        for channel, rows in program.outputs.items()
    }
    return FusedProgram(fuser.steps, fuser.slices, outputs)


class _StepFuser:
    """The steps so far, extended by the columns that other operators compute from them."""

    def __init__(self) -> None:
        self.steps: dict[str, ops.Operator] = {}
        self.slices: dict[str, StepSlice] = {}

    def find_slice(self, op: ops.Operator) -> StepSlice | None:
        """The operator as a slice of a step, if it only selects and computes from single rows of that step."""
        match op:
            case ops.StepReference():
                known = self.slices.get(op.step) or StepSlice(op.step, (), {c: c for c in op.columns})
                return replace(known, columns={c: known.columns[c] for c in op.columns})
            case ops.Projection():
                below = self.find_slice(op.child)
                return below and replace(below, columns={i.name: self._resolve_column(below, i) for i in op.items})
            case ops.Filter():
                below = self.find_slice(op.child)
                if below is None:
                    return None
                condition_column = self._add_column(below, to_expression(f"COALESCE({op.condition}, FALSE)"))
                return replace(below, conditions=(*below.conditions, condition_column))
            case _:
                return None

    def _resolve_column(self, part: StepSlice, item: ops.NamedExpression) -> str:
        plain = item.value.column_name
        return part.columns[plain] if plain is not None else self._add_column(part, item.value)

    def _add_column(self, part: StepSlice, value: Expression) -> str:
        """Add a column to the step. It is not computed for rows outside the slice, because that might fail."""
        step = self.steps[part.step]
        expression = value.rename_columns(part.columns)
        if part.conditions:
            guard = " AND ".join(map(quote_name, part.conditions))
            text = f"CASE WHEN {guard} THEN {expression} END"
            expression = Expression(text, expression.columns | set(part.conditions))
        name = f"_fused{len(step.columns)}"
        self.steps[part.step] = ops.add_columns(step, {name: expression})
        return name


def _split_union(op: ops.Operator) -> list[ops.Operator]:
    """Operators whose rows together are the rows of this one."""
    match op:
        case ops.Union():
            return [piece for child in op.children for piece in _split_union(child)]
        case ops.Projection(child, items) if all(i.is_column for i in items):  # others may need the union's types
            return [ops.Projection(piece, items) for piece in _split_union(child)]
        case _:
            return [op]
