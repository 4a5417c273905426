"""What exists stays small, and nothing is lost that somebody needs."""

from __future__ import annotations

from tests.planner.worlds import APPLY, JOIN, LINEAR, WITH_STATE, B, D, M

from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import PARTS, Stock, chained
from tidemill.planner.graph import Block, Bounds, Channel, Graph, Shape, Size, Task
from tidemill.planner.graph_index import Layout
from tidemill.planner.search import Rules
from tidemill.planner.vector import Clock, Vector

ACCEPTED = frozenset([B, D])
LINE = Graph(
    (Channel("a", conversions=(APPLY,)), Channel("m"), Channel("out", Bounds({("a", "m"): 0}), ACCEPTED)),
    (Task("t", ("a",), ("m",), WITH_STATE), Task("u", ("m",), ("out",), LINEAR)),
)


def at(*versions: int) -> Vector:
    return tuple((v,) for v in versions)


def delta(channel: str, since: int, upto: int, shape: Shape = D) -> Block:
    return Block(channel, shape, at(since), at(upto), Size(1, 10))


def base(channel: str, when: int) -> Block:
    return Block(channel, B, None, at(when), Size(100, 1000))


def held(stock: Stock, channel: str) -> set[tuple[int | None, int]]:
    return {(None if b.source is None else b.source[0][0], b.target[0][0]) for b in stock.blocks(channel)}


def clock(*versions: int) -> Clock:
    return Clock(Timeline({"a": versions}, versions[-1] + 1), {"a": ("a",), "m": ("a",), "out": ("a",)})


def test_deltas_that_arrive_one_after_the_other_are_one() -> None:
    stock = Stock(Layout(LINE))
    stock.add(base("a", 1))
    for when in range(1, 1001):
        stock.add(delta("a", when, when + 1))
    assert held(stock, "a") == {(None, 1), (1, 1001)}
    assert next(b for b in stock.blocks("a") if b.source).size == Size(1000, 10_000)


def test_chains_are_cut_where_somebody_stands_and_joined_once_he_is_gone() -> None:
    stock = Stock(Layout(LINE))
    stock.add(base("a", 1))
    stock.add(delta("a", 1, 2))
    stock.add(base("m", 2))
    stock.add(delta("a", 2, 3))
    assert held(stock, "a") == {(None, 1), (1, 2), (2, 3)}
    stock.add(delta("m", 2, 3))
    stock.settle(["a"], clock(1, 2, 3))
    assert held(stock, "a") == {(None, 1), (1, 3)}


def test_a_base_made_late_takes_nobody_back() -> None:
    """Something has been made of 3; a base of what was at 2, to start from, does not change that."""
    stock = Stock(Layout(LINE))
    stock.add(delta("m", 2, 3))
    stock.add(base("m", 2))
    assert stock.points("a") == {at(3), ((),)}


def test_chains_are_cut_where_a_running_plan_reads() -> None:
    stock = Stock(Layout(LINE))
    first = delta("a", 1, 2)
    stock.add(first)
    stock.pin([first])
    stock.add(delta("a", 2, 3))
    assert held(stock, "a") == {(1, 2), (2, 3)}
    stock.unpin([first])
    stock.settle(["a"], clock(1, 2, 3))
    assert held(stock, "a") == {(1, 3)}


def test_a_chain_remembers_its_latest_parts() -> None:
    stock = Stock(Layout(LINE))
    for when in range(1, PARTS + 11):
        stock.add(delta("a", when, when + 1))
    parts = list(stock.blocks("a", chained=False))
    assert len(parts) == PARTS
    assert (parts[0].source, parts[0].target, parts[0].size) == (at(1), at(12), Size(11, 110))
    assert parts[-1] == delta("a", PARTS + 10, PARTS + 11)


def test_without_the_rule_nothing_is_chained() -> None:
    stock = Stock(Layout(LINE), Rules(chains=False))
    for when in (1, 2):
        stock.add(delta("a", when, when + 1))
    assert held(stock, "a") == {(1, 2), (2, 3)}


def test_what_all_outputs_have_passed_goes_but_for_the_last_base() -> None:
    stock = Stock(Layout(LINE))
    for when in (1, 2, 3, 4):
        stock.add(base("a", when))
    stock.add(base("m", 3))
    stock.add(base("out", 3))
    stock.settle(["a"], clock(1, 2, 3, 4))
    assert held(stock, "a") == {(None, 3), (None, 4)}


def test_deltas_that_were_handed_over_go_from_an_output_of_which_nothing_is_made() -> None:
    """Deltas that move one pathway alone and deltas that move both cannot be chained: they would lie there for ever."""
    stock = Stock(Layout(LINE))
    stock.add(base("out", 1))
    stock.add(delta("out", 1, 2))
    stock.deliver(base("out", 1))
    assert held(stock, "out") == {(None, 1), (1, 2)}
    stock.deliver(delta("out", 1, 2))
    assert held(stock, "out") == {(None, 1)}


def test_nothing_goes_while_an_output_has_nothing() -> None:
    stock = Stock(Layout(LINE))
    stock.add(delta("a", 1, 2))
    stock.add(base("a", 2))
    stock.settle(["a"], clock(1, 2))
    assert held(stock, "a") == {(1, 2), (None, 2)}


def test_the_slowest_route_decides() -> None:
    """One output is at 3, the other at 1: the base at 1 stays, that at 2 is nobody's, that at 3 is the newest."""
    graph = Graph(
        (Channel("a"), Channel("x", accepts=ACCEPTED), Channel("y", accepts=ACCEPTED)),
        (Task("t", ("a",), ("x",), LINEAR), Task("u", ("a",), ("y",), LINEAR)),
    )
    stock = Stock(Layout(graph))
    for when in (1, 2, 3):
        stock.add(base("a", when))
    stock.add(base("x", 3))
    stock.add(base("y", 1))
    stock.settle(["a"], clock(1, 2, 3))
    assert held(stock, "a") == {(None, 1), (None, 3)}


def test_pathways_of_a_join_stand_side_by_side() -> None:
    graph = Graph(
        (Channel("a"), Channel("b"), Channel("m"), Channel("out", accepts=ACCEPTED)),
        (Task("t", ("b",), ("m",), LINEAR), Task("u", ("a", "m"), ("out",), JOIN)),
    )
    stock = Stock(Layout(graph))
    stock.add(Block("out", B, None, at(5, 7)))
    assert stock.points("a") == {at(5)}
    assert stock.points("b") == {((),), at(7)}  # the task that reads it, and the output behind
    assert Layout(graph).pathways["out"] == (("a",), ("b", "m"))


def test_what_can_be_read_as_one() -> None:
    assert chained(delta("a", 1, 2, M), delta("a", 2, 3, M)) == delta("a", 1, 3, M)
    assert chained(delta("a", 1, 2, M), delta("a", 2, 3, D)) == delta("a", 1, 3, D)
    assert chained(delta("a", 1, 2), delta("a", 2, 3, Shape.WEAK)) is None
    assert chained(delta("a", 1, 2), delta("a", 3, 4)) is None
    assert chained(base("a", 1), delta("a", 1, 2)) is None
