"""Programs in fewer steps."""

from __future__ import annotations

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.expression import column, expression
from tidemill.algebra.fuse import Part, fused, inlined
from tidemill.algebra.operators import At, Filter, Group, Named, Operator, Project, Ref, Scan, Union, select
from tidemill.algebra.program import Output, Program
from tidemill.model.change import Append

CHANGE = Scan("t", ("a", "b"), At.CHANGE)
GROUPED = Group(CHANGE, ("a", "b"))
ROWS = {("t", At.CHANGE): [{"a": 1, "b": 0}, {"a": 6, "b": 2}, {"a": 6, "b": 2}]}


def program(rows: Operator, **steps: Operator) -> Program:
    return Program({"s": GROUPED, **steps}, (Output("out", rows, Append()),))


def test_a_step_that_only_picks_from_rows_at_hand_is_put_where_it_is_used() -> None:
    picks = Filter(CHANGE, expression("a > 1"))
    made = inlined(program(Ref("p", ("b",)), p=picks), lambda scan: True)
    assert list(made.steps) == ["s"]
    assert made.outputs[0].rows == select(picks, ("b",))


def test_a_step_over_rows_that_are_not_at_hand_stays() -> None:
    assert list(inlined(program(Ref("p", ("b",)), p=CHANGE), lambda scan: False).steps) == ["s", "p"]


def test_what_looks_at_single_rows_of_a_step_is_computed_along_with_it() -> None:
    ratio = Project(Filter(Ref("s", ("a", "b")), expression("b <> 0")), (Named("ratio", expression("a / b")),))
    made = fused(program(Ref("r", ("ratio",)), r=ratio))
    assert list(made.steps) == ["s"]
    (part,) = made.outputs["out"]
    assert isinstance(part, Part)
    found = [r for r in evaluate(made.steps["s"], ROWS) if all(r[k] for k in part.keep)]
    assert [r[part.columns["ratio"]] for r in found] == [3]


def test_what_a_filter_leaves_out_is_not_computed() -> None:
    """A division by zero that the filter kept away must stay away."""
    ratio = Project(Filter(Ref("s", ("a", "b")), expression("b <> 0")), (Named("ratio", expression("a / b")),))
    text = str(fused(program(ratio)).steps["s"])
    assert "CASE WHEN `_fused2` THEN `a` / `b` END" in text


def test_a_union_keeps_the_pieces_that_need_a_step_of_their_own() -> None:
    pieces = Union((select(Ref("s", ("a", "b")), ("a",)), select(CHANGE, ("a",))))
    made = fused(program(Project(pieces, (Named("x", column("a")),))))
    part, rest = made.outputs["out"]
    assert part == Part("s", (), {"x": "a"})
    assert not isinstance(rest, Part)
    assert evaluate(rest, ROWS) == [{"x": 1}, {"x": 6}, {"x": 6}]
