"""Windows keep only what is asked of them."""

from __future__ import annotations

from tidemill.algebra.expression import expression
from tidemill.algebra.operators import Filter, Named, Operator, Project, Scan, Window, rename
from tidemill.algebra.simplify import narrowed

RANK = (Named("r", expression("ROW_NUMBER() OVER (PARTITION BY k ORDER BY v)")),)
RANKED = Window(Scan("a", ("k", "v")), ("k",), RANK)
FIRST = expression("r <= 2")


def kept(op: Operator) -> str | None:
    while not isinstance(op, Window):
        op = op.child  # type: ignore[union-attr]
    return None if op.keep is None else op.keep.text


def test_a_filter_becomes_part_of_the_window() -> None:
    assert narrowed(Filter(RANKED, FIRST)) == Window(RANKED.child, ("k",), RANK, FIRST)


def test_so_does_a_second_one() -> None:
    both = narrowed(Filter(Filter(RANKED, FIRST), expression("v > 0")))
    assert isinstance(both, Window)
    assert kept(both) == "(`r` <= 2) AND (`v` > 0)"


def test_columns_may_have_other_names_by_then() -> None:
    found = narrowed(Filter(rename(RANKED, {"k": "x", "v": "y", "r": "z"}), expression("z <= 2")))
    assert found.columns == ("x", "y", "z")
    assert kept(found) == "`r` <= 2"


def test_what_is_computed_first_is_filtered_where_it_is() -> None:
    doubled = Project(RANKED, (Named("twice", expression("2 * r")),))
    found = Filter(doubled, expression("twice <= 4"))
    assert narrowed(found) == found
