"""`ui.layout` and `ui.graph`: positions of nodes and routes of edges."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tidemill.ui.home import format_path
from tidemill.ui.layout import GAP, DiagramLayout, DiagramPlace, Edge, compute_layout

HEIGHT = 100.0


def lay_out(names: str, edges: list[Edge]) -> DiagramLayout:
    return compute_layout(dict.fromkeys(names, HEIGHT), edges)


def test_data_flows_from_left_to_right() -> None:
    layout = lay_out("abcd", [("a", "c"), ("b", "c"), ("c", "d"), ("a", "d")])
    assert {k: p.column for k, p in layout.places.items()} == {"a": 0, "b": 0, "c": 1, "d": 2}
    assert layout.columns == 3


def test_a_long_edge_has_a_position_in_each_column_it_crosses() -> None:
    layout = lay_out("abc", [("a", "b"), ("b", "c"), ("a", "c")])
    route = layout.routes["a", "c"]
    assert [p.column for p in route] == [0, 1, 2]
    assert abs(route[1].middle - layout.places["b"].middle) >= HEIGHT / 2


def test_edges_do_not_cross_unnecessarily() -> None:
    layout = lay_out("abxy", [("a", "y"), ("b", "x")])
    above = layout.places["a"].middle < layout.places["b"].middle
    assert above == (layout.places["y"].middle < layout.places["x"].middle)


def test_a_cycle_is_drawn() -> None:
    layout = lay_out("abc", [("a", "b"), ("b", "c"), ("c", "a")])
    assert sorted(p.column for p in layout.places.values()) == [0, 1, 2]
    assert len(layout.routes) == 3


def test_an_empty_graph_has_an_empty_layout() -> None:
    assert compute_layout({}, []) == DiagramLayout(0, 0.0, {}, {})


@given(st.integers(2, 9), st.data())
def test_nodes_of_a_column_never_overlap_and_stay_inside(size: int, data: st.DataObject) -> None:
    names = [f"n{i}" for i in range(size)]
    edges = data.draw(st.lists(st.sampled_from(list(combinations(names, 2))), unique=True))
    layout = compute_layout(dict.fromkeys(names, HEIGHT), edges)
    for one, other in combinations(layout.places.values(), 2):
        assert one.column != other.column or abs(one.middle - other.middle) >= HEIGHT + GAP - 0.01
    assert all(layout.places[a].column < layout.places[b].column for a, b in edges)
    assert all(HEIGHT / 2 - 0.01 <= p.middle <= layout.height - HEIGHT / 2 + 0.01 for p in layout.places.values())


def test_a_curve_passes_straight_through_its_lanes() -> None:
    route = (DiagramPlace(0, 10), DiagramPlace(1, 30), DiagramPlace(2, 20))
    assert format_path(route) == "M 80 10 C 90 10 90 30 100 30 H 180 C 190 30 190 20 200 20"
