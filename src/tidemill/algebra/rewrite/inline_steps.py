"""Steps that only select rows and columns of local scans are substituted where they are used."""

from collections.abc import Mapping

from tidemill.algebra import operators as ops
from tidemill.algebra.program import Program
from tidemill.algebra.rewrite.expand_scans import LocalTest, RunContext


def inline_steps(program: Program, run: RunContext) -> Program:
    """The program without the steps that only select from scans whose rows are local."""
    known: dict[str, ops.Operator] = {}
    steps: dict[str, ops.Operator] = {}
    for name, op in program.steps.items():
        substituted = _substitute_steps(op, known)
        (known if _is_selection(substituted, run.is_local) else steps)[name] = substituted
    return Program(steps, program.map_outputs(lambda op: _substitute_steps(op, known)))


def _substitute_steps(op: ops.Operator, known: Mapping[str, ops.Operator]) -> ops.Operator:
    if isinstance(op, ops.StepReference) and op.step in known:
        definition = known[op.step]
        return definition if definition.columns == op.columns else ops.select_columns(definition, op.columns)
    return ops.map_children(op, lambda child: _substitute_steps(child, known))


def _is_selection(op: ops.Operator, is_local: LocalTest) -> bool:
    parts, plain = ops.walk_operators(op), ops.Projection | ops.Filter
    return all(is_local(o) if isinstance(o, ops.BlockScan) else isinstance(o, plain) for o in parts)
