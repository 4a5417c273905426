"""What exists stays small, and nothing is lost that somebody needs."""

from __future__ import annotations

from tests.planner.worlds import APPLY, JOIN, LINEAR, WITH_STATE, B, D, M

from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import MAX_CHAIN_PARTS, BlockInventory, chain_blocks
from tidemill.planner.graph import BlockNode, BlockShape, ChannelBounds, ChannelNode, DataSize, PlanningGraph, TaskNode
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.search_rules import SearchRules
from tidemill.planner.vector import PlanningClock, Vector

ACCEPTED = frozenset([B, D])
LINE = PlanningGraph(
    (
        ChannelNode("a", conversions=(APPLY,)),
        ChannelNode("m"),
        ChannelNode("out", ChannelBounds({("a", "m"): 0}), ACCEPTED),
    ),
    (TaskNode("t", ("a",), ("m",), WITH_STATE), TaskNode("u", ("m",), ("out",), LINEAR)),
)


def at(*versions: int) -> Vector:
    return tuple((v,) for v in versions)


def delta(channel: str, since: int, upto: int, shape: BlockShape = D) -> BlockNode:
    return BlockNode(channel, shape, at(since), at(upto), DataSize(1, 10))


def base(channel: str, when: int) -> BlockNode:
    return BlockNode(channel, B, None, at(when), DataSize(100, 1000))


def held(stock: BlockInventory, channel: str) -> set[tuple[int | None, int]]:
    return {(None if b.source is None else b.source[0][0], b.target[0][0]) for b in stock.list_blocks(channel)}


def clock(*versions: int) -> PlanningClock:
    return PlanningClock(Timeline({"a": versions}, versions[-1] + 1), {"a": ("a",), "m": ("a",), "out": ("a",)})


def test_deltas_that_arrive_one_after_the_other_are_one() -> None:
    stock = BlockInventory(GraphIndex(LINE))
    stock.add_block(base("a", 1))
    for when in range(1, 1001):
        stock.add_block(delta("a", when, when + 1))
    assert held(stock, "a") == {(None, 1), (1, 1001)}
    assert next(b for b in stock.list_blocks("a") if b.source).size == DataSize(1000, 10_000)


def test_chains_are_cut_where_somebody_stands_and_joined_once_he_is_gone() -> None:
    stock = BlockInventory(GraphIndex(LINE))
    stock.add_block(base("a", 1))
    stock.add_block(delta("a", 1, 2))
    stock.add_block(base("m", 2))
    stock.add_block(delta("a", 2, 3))
    assert held(stock, "a") == {(None, 1), (1, 2), (2, 3)}
    stock.add_block(delta("m", 2, 3))
    stock.trim_channels(["a"], clock(1, 2, 3))
    assert held(stock, "a") == {(None, 1), (1, 3)}


def test_a_base_made_late_takes_nobody_back() -> None:
    """Something has been made of 3; a base of what was at 2, to start from, does not change that."""
    stock = BlockInventory(GraphIndex(LINE))
    stock.add_block(delta("m", 2, 3))
    stock.add_block(base("m", 2))
    assert stock.find_resume_points("a") == {at(3), ((),)}


def test_chains_are_cut_where_a_running_plan_reads() -> None:
    stock = BlockInventory(GraphIndex(LINE))
    first = delta("a", 1, 2)
    stock.add_block(first)
    stock.pin_blocks([first])
    stock.add_block(delta("a", 2, 3))
    assert held(stock, "a") == {(1, 2), (2, 3)}
    stock.unpin_blocks([first])
    stock.trim_channels(["a"], clock(1, 2, 3))
    assert held(stock, "a") == {(1, 3)}


def test_a_chain_remembers_its_latest_parts() -> None:
    stock = BlockInventory(GraphIndex(LINE))
    for when in range(1, MAX_CHAIN_PARTS + 11):
        stock.add_block(delta("a", when, when + 1))
    parts = list(stock.list_blocks("a", chained=False))
    assert len(parts) == MAX_CHAIN_PARTS
    assert (parts[0].source, parts[0].target, parts[0].size) == (at(1), at(12), DataSize(11, 110))
    assert parts[-1] == delta("a", MAX_CHAIN_PARTS + 10, MAX_CHAIN_PARTS + 11)


def test_without_the_rule_nothing_is_chained() -> None:
    stock = BlockInventory(GraphIndex(LINE), SearchRules(chains=False))
    for when in (1, 2):
        stock.add_block(delta("a", when, when + 1))
    assert held(stock, "a") == {(1, 2), (2, 3)}


def test_what_all_outputs_have_passed_goes_but_for_the_last_base() -> None:
    stock = BlockInventory(GraphIndex(LINE))
    for when in (1, 2, 3, 4):
        stock.add_block(base("a", when))
    stock.add_block(base("m", 3))
    stock.add_block(base("out", 3))
    stock.trim_channels(["a"], clock(1, 2, 3, 4))
    assert held(stock, "a") == {(None, 3), (None, 4)}


def test_deltas_that_were_handed_over_go_from_an_output_of_which_nothing_is_made() -> None:
    """Deltas that move one pathway alone and deltas that move both cannot be chained: they would lie there for ever."""
    stock = BlockInventory(GraphIndex(LINE))
    stock.add_block(base("out", 1))
    stock.add_block(delta("out", 1, 2))
    stock.deliver_block(base("out", 1))
    assert held(stock, "out") == {(None, 1), (1, 2)}
    stock.deliver_block(delta("out", 1, 2))
    assert held(stock, "out") == {(None, 1)}


def test_nothing_goes_while_an_output_has_nothing() -> None:
    stock = BlockInventory(GraphIndex(LINE))
    stock.add_block(delta("a", 1, 2))
    stock.add_block(base("a", 2))
    stock.trim_channels(["a"], clock(1, 2))
    assert held(stock, "a") == {(1, 2), (None, 2)}


def test_the_slowest_route_decides() -> None:
    """One output is at 3, the other at 1: the base at 1 stays, that at 2 is nobody's, that at 3 is the newest."""
    graph = PlanningGraph(
        (ChannelNode("a"), ChannelNode("x", accepts=ACCEPTED), ChannelNode("y", accepts=ACCEPTED)),
        (TaskNode("t", ("a",), ("x",), LINEAR), TaskNode("u", ("a",), ("y",), LINEAR)),
    )
    stock = BlockInventory(GraphIndex(graph))
    for when in (1, 2, 3):
        stock.add_block(base("a", when))
    stock.add_block(base("x", 3))
    stock.add_block(base("y", 1))
    stock.trim_channels(["a"], clock(1, 2, 3))
    assert held(stock, "a") == {(None, 1), (None, 3)}


def test_pathways_of_a_join_stand_side_by_side() -> None:
    graph = PlanningGraph(
        (ChannelNode("a"), ChannelNode("b"), ChannelNode("m"), ChannelNode("out", accepts=ACCEPTED)),
        (TaskNode("t", ("b",), ("m",), LINEAR), TaskNode("u", ("a", "m"), ("out",), JOIN)),
    )
    stock = BlockInventory(GraphIndex(graph))
    stock.add_block(BlockNode("out", B, None, at(5, 7)))
    assert stock.find_resume_points("a") == {at(5)}
    assert stock.find_resume_points("b") == {((),), at(7)}  # the task that reads it, and the output behind
    assert GraphIndex(graph).pathways["out"] == (("a",), ("b", "m"))


def test_what_can_be_read_as_one() -> None:
    assert chain_blocks(delta("a", 1, 2, M), delta("a", 2, 3, M)) == delta("a", 1, 3, M)
    assert chain_blocks(delta("a", 1, 2, M), delta("a", 2, 3, D)) == delta("a", 1, 3, D)
    assert chain_blocks(delta("a", 1, 2), delta("a", 2, 3, BlockShape.WEAK)) is None
    assert chain_blocks(delta("a", 1, 2), delta("a", 3, 4)) is None
    assert chain_blocks(base("a", 1), delta("a", 1, 2)) is None
