"""Windows keep only what is asked of them."""

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
from tidemill.algebra.simplify import narrow_windows

RANK = (NamedExpression("r", to_expression("ROW_NUMBER() OVER (PARTITION BY k ORDER BY v)")),)
RANKED = WindowFunction(Scan("a", ("k", "v")), ("k",), RANK)
FIRST = to_expression("r <= 2")


def kept(op: Operator) -> str | None:
    while not isinstance(op, WindowFunction):
        op = op.child  # type: ignore[union-attr]
    return None if op.condition is None else op.condition.text


def test_a_filter_becomes_part_of_the_window() -> None:
    assert narrow_windows(Filter(RANKED, FIRST)) == WindowFunction(RANKED.child, ("k",), RANK, FIRST)


def test_so_does_a_second_one() -> None:
    both = narrow_windows(Filter(Filter(RANKED, FIRST), to_expression("v > 0")))
    assert isinstance(both, WindowFunction)
    assert kept(both) == "(`r` <= 2) AND (`v` > 0)"


def test_columns_may_have_other_names_by_then() -> None:
    found = narrow_windows(Filter(rename_columns(RANKED, {"k": "x", "v": "y", "r": "z"}), to_expression("z <= 2")))
    assert found.columns == ("x", "y", "z")
    assert kept(found) == "`r` <= 2"


def test_what_is_computed_first_is_filtered_where_it_is() -> None:
    doubled = Projection(RANKED, (NamedExpression("twice", to_expression("2 * r")),))
    found = Filter(doubled, to_expression("twice <= 4"))
    assert narrow_windows(found) == found
