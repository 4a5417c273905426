"""Programs in fewer steps."""

from __future__ import annotations

from tidemill.algebra.evaluate import evaluate_operator
from tidemill.algebra.expression import build_column, to_expression
from tidemill.algebra.fuse import StepSlice, fuse_steps, inline_steps
from tidemill.algebra.operators import (
    Aggregation,
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
from tidemill.algebra.program import Program, ProgramOutput
from tidemill.model.change import Append

CHANGE = Scan("t", ("a", "b"), ScanMode.CHANGE)
GROUPED = Aggregation(CHANGE, ("a", "b"))
ROWS = {("t", ScanMode.CHANGE): [{"a": 1, "b": 0}, {"a": 6, "b": 2}, {"a": 6, "b": 2}]}


def program(rows: Operator, **steps: Operator) -> Program:
    return Program({"s": GROUPED, **steps}, (ProgramOutput("out", rows, Append()),))


def test_a_step_that_only_picks_from_rows_at_hand_is_put_where_it_is_used() -> None:
    picks = Filter(CHANGE, to_expression("a > 1"))
    made = inline_steps(program(StepReference("p", ("b",)), p=picks), lambda scan: True)
    assert list(made.steps) == ["s"]
    assert made.outputs[0].rows == select_columns(picks, ("b",))


def test_a_step_over_rows_that_are_not_at_hand_stays() -> None:
    assert list(inline_steps(program(StepReference("p", ("b",)), p=CHANGE), lambda scan: False).steps) == ["s", "p"]


def test_what_looks_at_single_rows_of_a_step_is_computed_along_with_it() -> None:
    ratio = Projection(
        Filter(StepReference("s", ("a", "b")), to_expression("b <> 0")),
        (NamedExpression("ratio", to_expression("a / b")),),
    )
    made = fuse_steps(program(StepReference("r", ("ratio",)), r=ratio))
    assert list(made.steps) == ["s"]
    (part,) = made.outputs["out"]
    assert isinstance(part, StepSlice)
    found = [r for r in evaluate_operator(made.steps["s"], ROWS) if all(r[k] for k in part.conditions)]
    assert [r[part.columns["ratio"]] for r in found] == [3]


def test_what_a_filter_leaves_out_is_not_computed() -> None:
    """A division by zero that the filter kept away must stay away."""
    ratio = Projection(
        Filter(StepReference("s", ("a", "b")), to_expression("b <> 0")),
        (NamedExpression("ratio", to_expression("a / b")),),
    )
    text = str(fuse_steps(program(ratio)).steps["s"])
    assert "CASE WHEN `_fused2` THEN `a` / `b` END" in text


def test_a_union_keeps_the_pieces_that_need_a_step_of_their_own() -> None:
    pieces = Union((select_columns(StepReference("s", ("a", "b")), ("a",)), select_columns(CHANGE, ("a",))))
    made = fuse_steps(program(Projection(pieces, (NamedExpression("x", build_column("a")),))))
    part, rest = made.outputs["out"]
    assert part == StepSlice("s", (), {"x": "a"})
    assert not isinstance(rest, StepSlice)
    assert evaluate_operator(rest, ROWS) == [{"x": 1}, {"x": 6}, {"x": 6}]
