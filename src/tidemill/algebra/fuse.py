"""Fewer steps for the same rows.

Where a change is small, what a step costs is that there is one. So a step that only picks rows and columns of what
can be had for nothing is put where it is used (`inlined`), and what only picks and computes from the rows of another
step, row by row, is computed along with that one (`fused`): it becomes a part of its rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidemill.algebra.expression import Expression, expression, quoted
from tidemill.algebra.operators import Filter, Named, Operator, Project, Ref, Scan, Union, extend, rebuilt, select, walk
from tidemill.algebra.program import Output, Program


def inlined(program: Program, at_hand: Callable[[Scan], bool]) -> Program:
    """The program without the steps that only pick from scans whose rows are at hand."""
    known: dict[str, Operator] = {}
    steps: dict[str, Operator] = {}
    for name, op in program.steps.items():
        made = _with(op, known)
        (known if _picks(made, at_hand) else steps)[name] = made
    outputs = (Output(o.channel, o.rows and _with(o.rows, known), o.updates) for o in program.outputs)
    return Program(steps, tuple(outputs))


def _with(op: Operator, known: Mapping[str, Operator]) -> Operator:
    if isinstance(op, Ref) and op.step in known:
        found = known[op.step]
        return found if found.columns == op.columns else select(found, op.columns)
    return rebuilt(op, lambda child: _with(child, known))


def _picks(op: Operator, at_hand: Callable[[Scan], bool]) -> bool:
    return all(at_hand(o) if isinstance(o, Scan) else isinstance(o, Project | Filter) for o in walk(op))


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows and columns of a step: those rows of it in which all of `keep` are true."""

    step: str
    keep: tuple[str, ...]
    columns: Mapping[str, str]  # to the step's


@dataclass(frozen=True, slots=True)
class Fused:
    """A program in which parts of steps stand for what was computed along with them."""

    steps: Mapping[str, Operator]
    parts: Mapping[str, Part]  # of the names of steps that need none of their own
    outputs: Mapping[str, tuple[Part | Operator, ...]]  # the pieces of each channel's rows


def fused(program: Program) -> Fused:
    """The same program in as few steps as there are joins and groups in the way."""
    fusing = _Fusing()
    for name, op in program.steps.items():
        part = fusing.part(op)
        if part is None:
            fusing.steps[name] = op
        else:
            fusing.parts[name] = part
    outputs = {
        o.channel: () if o.rows is None else tuple(fusing.part(p) or p for p in _pieces(o.rows))
        for o in program.outputs
    }
    return Fused(fusing.steps, fusing.parts, outputs)


class _Fusing:
    """Steps so far, grown by the columns that others compute from them."""

    def __init__(self) -> None:
        self.steps: dict[str, Operator] = {}
        self.parts: dict[str, Part] = {}

    def part(self, op: Operator) -> Part | None:
        """The operator as part of a step, if all it does is pick and compute from single rows of one."""
        match op:
            case Ref():
                known = self.parts.get(op.step) or Part(op.step, (), {c: c for c in op.columns})
                return Part(known.step, known.keep, {c: known.columns[c] for c in op.columns})
            case Project():
                below = self.part(op.child)
                return below and Part(below.step, below.keep, {i.name: self._column(below, i) for i in op.items})
            case Filter():
                below = self.part(op.child)
                if below is None:
                    return None
                holds = self._grown(below, expression(f"COALESCE({op.condition}, FALSE)"))
                return Part(below.step, (*below.keep, holds), below.columns)
            case _:
                return None

    def _column(self, part: Part, item: Named) -> str:
        plain = item.value.column
        return part.columns[plain] if plain is not None else self._grown(part, item.value)

    def _grown(self, part: Part, value: Expression) -> str:
        """A further column of the step. It is not computed for rows that are left out: that might fail."""
        step = self.steps[part.step]
        made = value.renamed(part.columns)
        if part.keep:
            guard = " AND ".join(map(quoted, part.keep))
            made = Expression(f"CASE WHEN {guard} THEN {made} END", made.columns | set(part.keep))
        name = f"_fused{len(step.columns)}"
        self.steps[part.step] = extend(step, Named(name, made))
        return name


def _pieces(op: Operator) -> list[Operator]:
    """Operators whose rows together are those of this one."""
    match op:
        case Union():
            return [piece for child in op.children for piece in _pieces(child)]
        case Project(child, items) if all(i.plain for i in items):  # what computes may need the types of the union
            return [Project(piece, items) for piece in _pieces(child)]
        case _:
            return [op]
