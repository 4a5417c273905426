"""Only the columns that are needed are read."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from sqlglot import exp

from tidemill.algebra.dialect import parse_expression
from tidemill.algebra.expression import Expression, build_column, to_expression
from tidemill.algebra.merge import Deltas, chain_deltas, merge_deltas
from tidemill.algebra.operators import (
    ORDER,
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
    list_children,
    list_scans,
    select_columns,
    walk_operators,
)
from tidemill.algebra.program import Program
from tidemill.algebra.rewrite.prune_columns import prune_operator, prune_program
from tidemill.model.change import Append, Increment, Patch, Signed, Updates, Upsert
from tidemill.model.schema import Schema

A = Scan("a", ("k", "v", "w", "x"))
B = Scan("b", ("j", "n", "m"))


def list_read_columns(op: Operator, **steps: Operator) -> dict[str, set[tuple[str, ...]]]:
    """The columns that the pruned program reads from each channel."""
    program = prune_program(Program(steps, {"t": op}))
    rows = program.outputs["t"]
    assert rows is not None
    assert rows.columns == op.columns
    columns: dict[str, set[tuple[str, ...]]] = {}
    for scan in (s for part in (rows, *program.steps.values()) for s in list_scans(part)):
        columns.setdefault(scan.channel, set()).add(scan.columns)
    return columns


def test_columns_in_expressions_and_conditions_are_read() -> None:
    filtered = Filter(A, to_expression("w > 0"))
    assert list_read_columns(Projection(filtered, (NamedExpression("y", to_expression("v + 1")),))) == {
        "a": {("v", "w")}
    }


def test_both_sides_of_a_join_read_their_keys() -> None:
    join = Join(A, B, JoinKind.LEFT, (("k", "j"),), to_expression("x < m"))
    assert list_read_columns(select_columns(join, ("v", "n"))) == {"a": {("k", "v", "x")}, "b": {("j", "n", "m")}}


def test_an_anti_join_reads_only_the_keys_of_its_right_side() -> None:
    join = Join(A, B, JoinKind.ANTI, (("k", "j"),), null_safe=True)
    assert list_read_columns(select_columns(join, ("v",))) == {"a": {("k", "v")}, "b": {("j",)}}


def test_an_aggregation_reads_its_keys_and_arguments() -> None:
    aggregates = (
        AggregateCall("n", "count"),
        AggregateCall("most", "max", (build_column("v"),)),
        AggregateCall("least", "min", (build_column("x"),)),
    )
    assert list_read_columns(select_columns(Aggregation(A, ("k",), aggregates), ("n", "most"))) == {"a": {("k", "v")}}
    assert list_read_columns(Aggregation(A, ("k",))) == {"a": {("k",)}}


def test_an_aggregate_given_as_text_reads_its_arguments() -> None:
    aggregate = AggregateCall("l", "listagg", (build_column("v"), build_column("w")), text="listagg(v, w)")
    assert list_read_columns(Aggregation(A, ("k",), (aggregate,))) == {"a": {("k", "v", "w")}}


def test_a_window_reads_its_order_and_condition_columns() -> None:
    ranked = NamedExpression("r", to_expression("rank() OVER (PARTITION BY k ORDER BY v)"))
    window = WindowFunction(A, ("k",), (ranked,))
    assert list_read_columns(select_columns(window, ("r",))) == {"a": {("k", "v")}}
    assert list_read_columns(select_columns(replace(window, condition=to_expression("x > 0")), ("r",))) == {
        "a": {("k", "v", "x")}
    }


def test_the_children_of_a_union_keep_the_same_columns() -> None:
    both = Union((Filter(A, to_expression("x > 0")), A))
    assert list_read_columns(select_columns(both, ("w",))) == {"a": {("w", "x"), ("w",)}}


def test_top_n_reads_its_order_columns() -> None:
    assert list_read_columns(select_columns(TopN(A, (build_column("w"),), 3), ("k",))) == {"a": {("k", "w")}}


def test_at_least_one_column_is_read() -> None:
    assert list_read_columns(Projection(A, (NamedExpression("one", to_expression("1")),))) == {"a": {("k",)}}


def test_steps_compute_only_the_columns_that_later_steps_read() -> None:
    first, second = Filter(A, to_expression("x > 0")), select_columns(StepReference("first", A.columns), ("v", "w"))
    assert list_read_columns(
        select_columns(StepReference("second", ("v", "w")), ("v",)), first=first, second=second
    ) == {"a": {("v", "x")}}


MERGES = [
    Append(),
    Signed(),
    Upsert(("k",)),
    Increment(("k",), ("v", "w")),
    Patch(("k",), ("x",), ("v", "w")),
]


@pytest.mark.parametrize("updates", MERGES, ids=lambda updates: updates.name)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("column", ["k", "v", "w", "x"])
def test_merged_contents_keep_what_each_column_is_computed_from(updates: Updates, count: int, column: str) -> None:
    content = Schema.from_ddl("k int, v int, w int" + (", x int" if not isinstance(updates, Increment) else ""))
    delta = Scan("d", (*updates.build_delta_schema(content).names, ORDER))
    deltas = Deltas(delta, updates, content, count)
    operators = [
        merge_deltas(Scan("a", content.names), deltas, is_small=True),
        merge_deltas(Scan("a", content.names), deltas, is_small=False),
        chain_deltas(deltas),
    ]
    for op in operators:
        if column in op.columns:
            assert list_missing_columns(prune_operator(select_columns(op, (column,)))) == set()


def list_missing_columns(op: Operator) -> set[str]:
    """The columns that expressions read and the operators below do not have."""
    missing: set[str] = set()
    for part in walk_operators(op):
        below = {name for child in list_children(part) for name in child.columns}
        for text in list_texts([getattr(part, f.name) for f in fields(part)]):
            missing |= {c.parts[0].name for c in parse_expression(text).find_all(exp.Column)} - below
    return missing


def list_texts(value: object) -> list[str]:
    """The texts of all expressions in an operator's values."""
    match value:
        case Expression():
            return [value.text]
        case tuple() | list():
            return [text for part in value for text in list_texts(part)]
        case NamedExpression():
            return list_texts(value.value)
        case AggregateCall():
            return list_texts(value.arguments)
    return []
