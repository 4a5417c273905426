"""Steps that only select rows and columns of local scans are substituted where they are used."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.algebra.operators import (
    BlockScan,
    Filter,
    Operator,
    Projection,
    StepReference,
    map_children,
    select_columns,
    walk_operators,
)
from tidemill.algebra.program import Program
from tidemill.algebra.rewrite.expand_scans import LocalTest, RunContext


def inline_steps(program: Program, run: RunContext) -> Program:
    """The program without the steps that only select from scans whose rows are local."""
    known: dict[str, Operator] = {}
    steps: dict[str, Operator] = {}
    for name, op in program.steps.items():
        substituted = _substitute_steps(op, known)
        (known if _is_selection(substituted, run.is_local) else steps)[name] = substituted
    return Program(steps, program.map_outputs(lambda op: _substitute_steps(op, known)))


def _substitute_steps(op: Operator, known: Mapping[str, Operator]) -> Operator:
    if isinstance(op, StepReference) and op.step in known:
        definition = known[op.step]
        return definition if definition.columns == op.columns else select_columns(definition, op.columns)
    return map_children(op, lambda child: _substitute_steps(child, known))


def _is_selection(op: Operator, is_local: LocalTest) -> bool:
    return all(
        is_local(o) if isinstance(o, BlockScan) else isinstance(o, Projection | Filter) for o in walk_operators(op)
    )
