"""Fewer steps for the same rows.

Where a change is small, what a step costs is that there is one. So a step that only picks rows and columns of what
can be had for nothing is put where it is used (`inlined`), and what only picks and computes from the rows of another
step, row by row, is computed along with that one (`fused`): it becomes a part of its rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidemill.algebra.expression import Expression, quote_name, to_expression
from tidemill.algebra.operators import (
    Filter,
    NamedExpression,
    Operator,
    Projection,
    Scan,
    StepReference,
    Union,
    add_columns,
    map_children,
    select_columns,
    walk_operators,
)
from tidemill.algebra.program import Program, ProgramOutput


def inline_steps(program: Program, at_hand: Callable[[Scan], bool]) -> Program:
    """The program without the steps that only pick from scans whose rows are at hand."""
    known: dict[str, Operator] = {}
    steps: dict[str, Operator] = {}
    for name, op in program.steps.items():
        made = _substitute_steps(op, known)
        (known if _is_selection(made, at_hand) else steps)[name] = made
    outputs = (
        ProgramOutput(o.channel, o.rows and _substitute_steps(o.rows, known), o.updates) for o in program.outputs
    )
    return Program(steps, tuple(outputs))


def _substitute_steps(op: Operator, known: Mapping[str, Operator]) -> Operator:
    if isinstance(op, StepReference) and op.step in known:
        found = known[op.step]
        return found if found.columns == op.columns else select_columns(found, op.columns)
    return map_children(op, lambda child: _substitute_steps(child, known))


def _is_selection(op: Operator, at_hand: Callable[[Scan], bool]) -> bool:
    return all(at_hand(o) if isinstance(o, Scan) else isinstance(o, Projection | Filter) for o in walk_operators(op))


@dataclass(frozen=True, slots=True)
class StepSlice:
    """Some rows and columns of a step: those rows of it in which all of `keep` are true."""

    step: str
    keep: tuple[str, ...]
    columns: Mapping[str, str]  # to the step's


@dataclass(frozen=True, slots=True)
class FusedProgram:
    """A program in which parts of steps stand for what was computed along with them."""

    steps: Mapping[str, Operator]
    parts: Mapping[str, StepSlice]  # of the names of steps that need none of their own
    outputs: Mapping[str, tuple[StepSlice | Operator, ...]]  # the pieces of each channel's rows


def fuse_steps(program: Program) -> FusedProgram:
    """The same program in as few steps as there are joins and groups in the way."""
    fusing = _StepFuser()
    for name, op in program.steps.items():
        part = fusing.find_slice(op)
        if part is None:
            fusing.steps[name] = op
        else:
            fusing.parts[name] = part
    outputs = {
        o.channel: () if o.rows is None else tuple(fusing.find_slice(p) or p for p in _split_union(o.rows))
        for o in program.outputs
    }
    return FusedProgram(fusing.steps, fusing.parts, outputs)


class _StepFuser:
    """Steps so far, grown by the columns that others compute from them."""

    def __init__(self) -> None:
        self.steps: dict[str, Operator] = {}
        self.parts: dict[str, StepSlice] = {}

    def find_slice(self, op: Operator) -> StepSlice | None:
        """The operator as part of a step, if all it does is pick and compute from single rows of one."""
        match op:
            case StepReference():
                known = self.parts.get(op.step) or StepSlice(op.step, (), {c: c for c in op.columns})
                return StepSlice(known.step, known.keep, {c: known.columns[c] for c in op.columns})
            case Projection():
                below = self.find_slice(op.child)
                return below and StepSlice(
                    below.step, below.keep, {i.name: self._resolve_column(below, i) for i in op.items}
                )
            case Filter():
                below = self.find_slice(op.child)
                if below is None:
                    return None
                holds = self._add_column(below, to_expression(f"COALESCE({op.condition}, FALSE)"))
                return StepSlice(below.step, (*below.keep, holds), below.columns)
            case _:
                return None

    def _resolve_column(self, part: StepSlice, item: NamedExpression) -> str:
        plain = item.value.column_name
        return part.columns[plain] if plain is not None else self._add_column(part, item.value)

    def _add_column(self, part: StepSlice, value: Expression) -> str:
        """A further column of the step. It is not computed for rows that are left out: that might fail."""
        step = self.steps[part.step]
        made = value.rename_columns(part.columns)
        if part.keep:
            guard = " AND ".join(map(quote_name, part.keep))
            made = Expression(f"CASE WHEN {guard} THEN {made} END", made.columns | set(part.keep))
        name = f"_fused{len(step.columns)}"
        self.steps[part.step] = add_columns(step, NamedExpression(name, made))
        return name


def _split_union(op: Operator) -> list[Operator]:
    """Operators whose rows together are those of this one."""
    match op:
        case Union():
            return [piece for child in op.children for piece in _split_union(child)]
        case Projection(child, items) if all(
            i.is_column for i in items
        ):  # what computes may need the types of the union
            return [Projection(piece, items) for piece in _split_union(child)]
        case _:
            return [op]
