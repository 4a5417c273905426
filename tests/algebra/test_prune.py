"""No more columns are read than are asked for."""

from __future__ import annotations

from dataclasses import replace

from tidemill.algebra.expression import build_column, to_expression
from tidemill.algebra.operators import (
    AggregateCall,
    Aggregation,
    Filter,
    Join,
    JoinKind,
    NamedExpression,
    Operator,
    Projection,
    Scan,
    StepReference,
    TopN,
    Union,
    WindowFunction,
    list_scans,
    select_columns,
)
from tidemill.algebra.program import Program, ProgramOutput
from tidemill.algebra.prune import prune_program
from tidemill.model.change import Append

A = Scan("a", ("k", "v", "w", "x"))
B = Scan("b", ("j", "n", "m"))


def read(op: Operator, **steps: Operator) -> dict[str, set[tuple[str, ...]]]:
    """The columns that are read of each channel."""
    made = prune_program(Program(steps, (ProgramOutput("t", op, Append()),)))
    rows = made.outputs[0].rows
    assert rows is not None
    assert rows.columns == op.columns
    found: dict[str, set[tuple[str, ...]]] = {}
    for scan in (s for part in (rows, *made.steps.values()) for s in list_scans(part)):
        found.setdefault(scan.channel, set()).add(scan.columns)
    return found


def test_what_is_selected_computed_and_asked_about_is_read() -> None:
    kept = Filter(A, to_expression("w > 0"))
    assert read(Projection(kept, (NamedExpression("y", to_expression("v + 1")),))) == {"a": {("v", "w")}}


def test_both_sides_of_a_join_give_their_keys() -> None:
    met = Join(A, B, JoinKind.LEFT, (("k", "j"),), to_expression("x < m"))
    assert read(select_columns(met, ("v", "n"))) == {"a": {("k", "v", "x")}, "b": {("j", "n", "m")}}


def test_of_what_only_has_to_be_there_the_keys_are_enough() -> None:
    met = Join(A, B, JoinKind.ANTI, (("k", "j"),), null_safe=True)
    assert read(select_columns(met, ("v",))) == {"a": {("k", "v")}, "b": {("j",)}}


def test_groups_need_their_keys_and_what_they_fold() -> None:
    folds = (
        AggregateCall("n", "count"),
        AggregateCall("most", "max", (build_column("v"),)),
        AggregateCall("least", "min", (build_column("x"),)),
    )
    assert read(select_columns(Aggregation(A, ("k",), folds), ("n", "most"))) == {"a": {("k", "v")}}
    assert read(Aggregation(A, ("k",))) == {"a": {("k",)}}


def test_a_fold_in_its_own_words_needs_the_columns_in_them() -> None:
    fold = AggregateCall("l", "listagg", (), text="listagg(v, w)")
    assert read(Aggregation(A, ("k",), (fold,))) == {"a": {("k", "v", "w")}}


def test_a_window_needs_what_it_ranks_by_and_keeps() -> None:
    ranked = NamedExpression("r", to_expression("rank() OVER (PARTITION BY k ORDER BY v)"))
    window = WindowFunction(A, ("k",), (ranked,))
    assert read(select_columns(window, ("r",))) == {"a": {("k", "v")}}
    assert read(select_columns(replace(window, condition=to_expression("x > 0")), ("r",))) == {"a": {("k", "v", "x")}}


def test_the_children_of_a_union_keep_the_same_columns() -> None:
    both = Union((Filter(A, to_expression("x > 0")), A))
    assert read(select_columns(both, ("w",))) == {"a": {("w", "x"), ("w",)}}


def test_the_first_rows_need_what_they_are_ordered_by() -> None:
    assert read(select_columns(TopN(A, (build_column("w"),), 3), ("k",))) == {"a": {("k", "w")}}


def test_rows_without_columns_would_not_be_counted() -> None:
    assert read(Projection(A, (NamedExpression("one", to_expression("1")),))) == {"a": {("k",)}}


def test_steps_are_made_of_what_others_ask_of_them() -> None:
    first, second = Filter(A, to_expression("x > 0")), select_columns(StepReference("first", A.columns), ("v", "w"))
    assert read(select_columns(StepReference("second", ("v", "w")), ("v",)), first=first, second=second) == {
        "a": {("v", "x")}
    }
