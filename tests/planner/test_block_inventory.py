"""The block inventory stays small and loses no block that a reader needs."""

from __future__ import annotations

from benchmarks.workflows.inventory import MAX_CHAIN_PARTS, LastingInventory
from tests.planner.random_workflows import APPLY, JOIN, LINEAR, WITH_STATE, B, D, M

from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import chain_blocks
from tidemill.planner.graph import BlockNode, BlockShape, ChannelBounds, ChannelNode, DataSize, PlanningGraph, TaskNode
from tidemill.planner.graph_index import GraphIndex
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


def build_vector(*versions: int) -> Vector:
    return tuple((v,) for v in versions)


def delta(channel: str, since: int, upto: int, shape: BlockShape = D) -> BlockNode:
    return BlockNode(channel, shape, build_vector(since), build_vector(upto), DataSize(1, 10))


def base(channel: str, version: int) -> BlockNode:
    return BlockNode(channel, B, None, build_vector(version), DataSize(100, 1000))


def list_spans(inventory: LastingInventory, channel: str) -> set[tuple[int | None, int]]:
    return {(None if b.source is None else b.source[0][0], b.target[0][0]) for b in inventory.list_blocks(channel)}


def clock(*versions: int) -> PlanningClock:
    return PlanningClock(Timeline({"a": versions}, versions[-1] + 1), {"a": ("a",), "m": ("a",), "out": ("a",)})


def test_consecutive_deltas_are_chained() -> None:
    inventory = LastingInventory(GraphIndex(LINE))
    inventory.add_block(base("a", 1))
    for version in range(1, 1001):
        inventory.add_block(delta("a", version, version + 1))
    assert list_spans(inventory, "a") == {(None, 1), (1, 1001)}
    assert next(b for b in inventory.list_blocks("a") if b.source).size == DataSize(1000, 10_000)


def test_chains_are_split_at_a_readers_position_until_it_advances() -> None:
    inventory = LastingInventory(GraphIndex(LINE))
    inventory.add_block(base("a", 1))
    inventory.add_block(delta("a", 1, 2))
    inventory.add_block(base("m", 2))
    inventory.add_block(delta("a", 2, 3))
    assert list_spans(inventory, "a") == {(None, 1), (1, 2), (2, 3)}
    inventory.add_block(delta("m", 2, 3))
    inventory.trim_channels(["a"], clock(1, 2, 3))
    assert list_spans(inventory, "a") == {(None, 1), (1, 3)}


def test_a_later_base_of_an_old_version_moves_no_reader_back() -> None:
    """A block derived from version 3 exists; a base of version 2 to start from does not change that."""
    inventory = LastingInventory(GraphIndex(LINE))
    inventory.add_block(delta("m", 2, 3))
    inventory.add_block(base("m", 2))
    assert inventory.find_resume_points("a") == {build_vector(3), ((),)}


def test_chains_are_split_where_a_running_plan_reads() -> None:
    inventory = LastingInventory(GraphIndex(LINE))
    first = delta("a", 1, 2)
    inventory.add_block(first)
    inventory.pin_blocks([first])
    inventory.add_block(delta("a", 2, 3))
    assert list_spans(inventory, "a") == {(1, 2), (2, 3)}
    inventory.unpin_blocks([first])
    inventory.trim_channels(["a"], clock(1, 2, 3))
    assert list_spans(inventory, "a") == {(1, 3)}


def test_a_chain_keeps_its_latest_parts() -> None:
    inventory = LastingInventory(GraphIndex(LINE))
    for version in range(1, MAX_CHAIN_PARTS + 11):
        inventory.add_block(delta("a", version, version + 1))
    parts = list(inventory.list_parts("a"))
    assert len(parts) == MAX_CHAIN_PARTS
    assert (parts[0].source, parts[0].target, parts[0].size) == (build_vector(1), build_vector(12), DataSize(11, 110))
    assert parts[-1] == delta("a", MAX_CHAIN_PARTS + 10, MAX_CHAIN_PARTS + 11)


def test_without_the_rule_no_deltas_are_chained() -> None:
    inventory = LastingInventory(GraphIndex(LINE), chains=False)
    for version in (1, 2):
        inventory.add_block(delta("a", version, version + 1))
    assert list_spans(inventory, "a") == {(1, 2), (2, 3)}


def test_blocks_before_all_outputs_are_dropped_except_the_last_base() -> None:
    inventory = LastingInventory(GraphIndex(LINE))
    for version in (1, 2, 3, 4):
        inventory.add_block(base("a", version))
    inventory.add_block(base("m", 3))
    inventory.add_block(base("out", 3))
    inventory.trim_channels(["a"], clock(1, 2, 3, 4))
    assert list_spans(inventory, "a") == {(None, 3), (None, 4)}


def test_delivered_deltas_of_an_output_without_readers_are_dropped() -> None:
    """Deltas of one pathway and deltas of both cannot be chained, so they would remain forever."""
    inventory = LastingInventory(GraphIndex(LINE))
    inventory.add_block(base("out", 1))
    inventory.add_block(delta("out", 1, 2))
    inventory.deliver_block(base("out", 1))
    assert list_spans(inventory, "out") == {(None, 1), (1, 2)}
    inventory.deliver_block(delta("out", 1, 2))
    assert list_spans(inventory, "out") == {(None, 1)}


def test_no_block_is_dropped_while_an_output_is_empty() -> None:
    inventory = LastingInventory(GraphIndex(LINE))
    inventory.add_block(delta("a", 1, 2))
    inventory.add_block(base("a", 2))
    inventory.trim_channels(["a"], clock(1, 2))
    assert list_spans(inventory, "a") == {(1, 2), (None, 2)}


def test_blocks_that_the_slowest_output_needs_are_retained() -> None:
    """One output is at 3, the other at 1: the bases at 1 and 3 are needed, and the base at 2 is not."""
    graph = PlanningGraph(
        (ChannelNode("a"), ChannelNode("x", accepts=ACCEPTED), ChannelNode("y", accepts=ACCEPTED)),
        (TaskNode("t", ("a",), ("x",), LINEAR), TaskNode("u", ("a",), ("y",), LINEAR)),
    )
    inventory = LastingInventory(GraphIndex(graph))
    for version in (1, 2, 3):
        inventory.add_block(base("a", version))
    inventory.add_block(base("x", 3))
    inventory.add_block(base("y", 1))
    inventory.trim_channels(["a"], clock(1, 2, 3))
    assert list_spans(inventory, "a") == {(None, 1), (None, 3)}


def test_pathways_of_a_join_are_separate() -> None:
    graph = PlanningGraph(
        (ChannelNode("a"), ChannelNode("b"), ChannelNode("m"), ChannelNode("out", accepts=ACCEPTED)),
        (TaskNode("t", ("b",), ("m",), LINEAR), TaskNode("u", ("a", "m"), ("out",), JOIN)),
    )
    inventory = LastingInventory(GraphIndex(graph))
    inventory.add_block(BlockNode("out", B, None, build_vector(5, 7)))
    assert inventory.find_resume_points("a") == {build_vector(5)}
    assert inventory.find_resume_points("b") == {
        ((),),
        build_vector(7),
    }  # the positions of the task that reads it and of the output
    assert GraphIndex(graph).pathways["out"] == (("a",), ("b", "m"))


def test_deltas_are_chained_if_they_are_consecutive_and_compatible() -> None:
    assert chain_blocks(delta("a", 1, 2, M), delta("a", 2, 3, M)) == delta("a", 1, 3, M)
    assert chain_blocks(delta("a", 1, 2, M), delta("a", 2, 3, D)) == delta("a", 1, 3, D)
    assert chain_blocks(delta("a", 1, 2), delta("a", 2, 3, BlockShape.WEAK)) is None
    assert chain_blocks(delta("a", 1, 2), delta("a", 3, 4)) is None
    assert chain_blocks(base("a", 1), delta("a", 1, 2)) is None
