"""Reducing the number of a program's steps."""

from __future__ import annotations

from tests.algebra.evaluate import evaluate_operator

from tidemill.algebra.expression import build_column, to_expression
from tidemill.algebra.operators import (
    Aggregation,
    BlockScan,
    Filter,
    NamedExpression,
    Operator,
    Projection,
    Scan,
    ScanMode,
    StepReference,
    Union,
    select_columns,
)
from tidemill.algebra.program import Program
from tidemill.algebra.rewrite.expand_scans import RunContext
from tidemill.algebra.rewrite.fuse_steps import StepSlice, fuse_steps
from tidemill.algebra.rewrite.inline_steps import inline_steps
from tidemill.model.schema import Schema

CHANGE = Scan("t", ("a", "b"), ScanMode.CHANGE)
SCHEMA = Schema.from_ddl("a INT, b INT")
BLOCKS = BlockScan(("file",), ("a", "b"), SCHEMA, SCHEMA, blocks=())
GROUPED = Aggregation(CHANGE, ("a", "b"))
LOCAL, REMOTE = (RunContext(lambda op: op, lambda _, local=local: local) for local in (True, False))
ROWS = {("t", ScanMode.CHANGE): [{"a": 1, "b": 0}, {"a": 6, "b": 2}, {"a": 6, "b": 2}]}


def build_program(rows: Operator, **steps: Operator) -> Program:
    return Program({"s": GROUPED, **steps}, {"out": rows})


def test_a_step_that_only_filters_local_rows_is_inlined() -> None:
    filtered = Filter(BLOCKS, to_expression("a > 1"))
    result = inline_steps(build_program(StepReference("p", ("b",)), p=filtered), LOCAL)
    assert list(result.steps) == ["s"]
    assert result.outputs["out"] == select_columns(filtered, ("b",))


def test_a_step_over_rows_that_are_not_local_is_kept() -> None:
    result = inline_steps(build_program(StepReference("p", ("b",)), p=BLOCKS), REMOTE)
    assert list(result.steps) == ["s", "p"]


def test_row_wise_operators_over_a_step_are_fused_with_it() -> None:
    ratio = Projection(
        Filter(StepReference("s", ("a", "b")), to_expression("b <> 0")),
        (NamedExpression("ratio", to_expression("a / b")),),
    )
    result = fuse_steps(build_program(StepReference("r", ("ratio",)), r=ratio))
    assert list(result.steps) == ["s"]
    (part,) = result.outputs["out"]
    assert isinstance(part, StepSlice)
    rows = [r for r in evaluate_operator(result.steps["s"], ROWS) if all(r[k] for k in part.conditions)]
    assert [r[part.columns["ratio"]] for r in rows] == [3]


def test_fused_expressions_are_not_computed_for_filtered_rows() -> None:
    """A division by zero that the filter prevented must stay prevented."""
    ratio = Projection(
        Filter(StepReference("s", ("a", "b")), to_expression("b <> 0")),
        (NamedExpression("ratio", to_expression("a / b")),),
    )
    text = str(fuse_steps(build_program(ratio)).steps["s"])
    assert "CASE WHEN `_fused2` THEN `a` / `b` END" in text


def test_a_union_keeps_the_inputs_that_need_a_separate_step() -> None:
    pieces = Union((select_columns(StepReference("s", ("a", "b")), ("a",)), select_columns(CHANGE, ("a",))))
    result = fuse_steps(build_program(Projection(pieces, (NamedExpression("x", build_column("a")),))))
    part, rest = result.outputs["out"]
    assert part == StepSlice("s", (), {"x": "a"})
    assert not isinstance(rest, StepSlice)
    assert evaluate_operator(rest, ROWS) == [{"x": 1}, {"x": 6}, {"x": 6}]
