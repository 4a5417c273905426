"""Windows keep only the rows that later filters need."""

from __future__ import annotations

from tidemill.algebra.expression import to_expression
from tidemill.algebra.operators import (
    Filter,
    NamedExpression,
    Operator,
    Projection,
    Scan,
    WindowFunction,
    rename_columns,
)
from tidemill.algebra.rewrite.narrow_windows import narrow_windows

RANK = (NamedExpression("r", to_expression("ROW_NUMBER() OVER (PARTITION BY k ORDER BY v)")),)
RANKED = WindowFunction(Scan("a", ("k", "v")), ("k",), RANK)
FIRST = to_expression("r <= 2")


def find_condition(op: Operator) -> str | None:
    while not isinstance(op, WindowFunction):
        op = op.child  # type: ignore[union-attr]
    return None if op.condition is None else op.condition.text


def test_a_filter_becomes_part_of_the_window() -> None:
    assert narrow_windows(Filter(RANKED, FIRST)) == WindowFunction(RANKED.child, ("k",), RANK, FIRST)


def test_a_second_filter_becomes_part_of_the_window() -> None:
    both = narrow_windows(Filter(Filter(RANKED, FIRST), to_expression("v > 0")))
    assert isinstance(both, WindowFunction)
    assert find_condition(both) == "(`r` <= 2) AND (`v` > 0)"


def test_filters_on_renamed_columns_are_pushed_down() -> None:
    narrowed = narrow_windows(Filter(rename_columns(RANKED, {"k": "x", "v": "y", "r": "z"}), to_expression("z <= 2")))
    assert narrowed.columns == ("x", "y", "z")
    assert find_condition(narrowed) == "`r` <= 2"


def test_a_filter_on_a_computed_column_is_not_pushed_down() -> None:
    doubled = Projection(RANKED, (NamedExpression("twice", to_expression("2 * r")),))
    original = Filter(doubled, to_expression("twice <= 4"))
    assert narrow_windows(original) == original
