"""`ui.layout` and `ui.graph`: where nodes stand, and how edges run."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tidemill.ui.home import format_path
from tidemill.ui.layout import GAP, DiagramLayout, DiagramPlace, Edge, compute_layout

HEIGHT = 100.0


def laid_out(names: str, edges: list[Edge]) -> DiagramLayout:
    return compute_layout(dict.fromkeys(names, HEIGHT), edges)


def test_data_goes_from_left_to_right() -> None:
    found = laid_out("abcd", [("a", "c"), ("b", "c"), ("c", "d"), ("a", "d")])
    assert {k: p.column for k, p in found.places.items()} == {"a": 0, "b": 0, "c": 1, "d": 2}
    assert found.columns == 3


def test_a_long_edge_has_a_place_in_each_column_it_passes() -> None:
    found = laid_out("abc", [("a", "b"), ("b", "c"), ("a", "c")])
    route = found.routes["a", "c"]
    assert [p.column for p in route] == [0, 1, 2]
    assert abs(route[1].middle - found.places["b"].middle) >= HEIGHT / 2


def test_edges_do_not_cross_where_they_need_not() -> None:
    found = laid_out("abxy", [("a", "y"), ("b", "x")])
    above = found.places["a"].middle < found.places["b"].middle
    assert above == (found.places["y"].middle < found.places["x"].middle)


def test_a_cycle_is_drawn_all_the_same() -> None:
    found = laid_out("abc", [("a", "b"), ("b", "c"), ("c", "a")])
    assert sorted(p.column for p in found.places.values()) == [0, 1, 2]
    assert len(found.routes) == 3


def test_nothing_at_all() -> None:
    assert compute_layout({}, []) == DiagramLayout(0, 0.0, {}, {})


@given(st.integers(2, 9), st.data())
def test_nodes_of_a_column_never_overlap_and_stay_inside(size: int, data: st.DataObject) -> None:
    names = [f"n{i}" for i in range(size)]
    edges = data.draw(st.lists(st.sampled_from(list(combinations(names, 2))), unique=True))
    found = compute_layout(dict.fromkeys(names, HEIGHT), edges)
    for one, other in combinations(found.places.values(), 2):
        assert one.column != other.column or abs(one.middle - other.middle) >= HEIGHT + GAP - 0.01
    assert all(found.places[a].column < found.places[b].column for a, b in edges)
    assert all(HEIGHT / 2 - 0.01 <= p.middle <= found.height - HEIGHT / 2 + 0.01 for p in found.places.values())


def test_a_curve_passes_straight_through_its_lanes() -> None:
    route = (DiagramPlace(0, 10), DiagramPlace(1, 30), DiagramPlace(2, 20))
    assert format_path(route) == "M 80 10 C 90 10 90 30 100 30 H 180 C 190 30 190 20 200 20"
