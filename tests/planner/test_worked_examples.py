"""The examples of the paper: crawls and click scores of three days, and two crawls."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from benchmarks.workflows.inventory import LastingInventory

from tidemill.model.time import Timeline
from tidemill.planner.bounds import compute_inconsistency
from tidemill.planner.graph import (
    NOTHING,
    BlockNode,
    BlockShape,
    ChannelBounds,
    ChannelNode,
    DataSize,
    PlanningGraph,
    PortRequirement,
    TaskNode,
    VariantNode,
)
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.planner import DynamicProgrammingPlanner
from tidemill.planner.pruning import ALL, SearchRules
from tidemill.planner.steps import CostEstimate, Plan
from tidemill.planner.vector import PlanningClock, Vector, find_start

B, D, M = BlockShape.BASE, BlockShape.STRONG, BlockShape.MONOTONE
# Hours since Sunday midnight.
SUN_3PM, MON_1AM, MON_8AM, TUE_1AM, TUE_11AM, TUE_5PM = 15, 25, 32, 49, 59, 65
WED_1AM, WED_2PM, NOW = 73, 86, 90
WEEK = 7 * 24
CRAWLS, SCORES = [SUN_3PM, MON_8AM, TUE_11AM, TUE_5PM, WED_2PM], [MON_1AM, TUE_1AM, WED_1AM]

JOIN = PlanningGraph(
    (
        ChannelNode("crawl"),
        ChannelNode("score"),
        ChannelNode("index", ChannelBounds({("crawl",): 0}, inconsistency=WEEK), accepts=frozenset([B, D])),
    ),
    (
        TaskNode(
            "join",
            ("crawl", "score"),
            ("index",),
            (
                VariantNode("batch", (PortRequirement(B), PortRequirement(B)), (B,)),
                VariantNode("new pages", (PortRequirement(M), PortRequirement(B)), (M,)),
            ),
        ),
    ),
)


def cost_by_bytes(task: str, variant: str, reads: Sequence[BlockNode]) -> CostEstimate:
    return CostEstimate(sum(b.size.bytes for b in reads), (DataSize(1, 1),))


def find_plan(inventory: LastingInventory, output: str, time: Timeline, rules: SearchRules = ALL) -> Plan:
    answer = DynamicProgrammingPlanner(inventory.index, cost_by_bytes, rules).find_plan(inventory, output, time)
    assert answer.plan is not None
    return answer.plan


def apply_plan(inventory: LastingInventory, plan: Plan) -> BlockNode:
    for step in plan.steps:
        for block in step.writes:
            inventory.add_block(block)
    assert plan.delivers is not None
    inventory.deliver_block(plan.delivers)
    return plan.delivers


@pytest.mark.parametrize(
    ("vector", "starts", "ends", "consistent"),
    [
        (((MON_8AM,), (MON_1AM,)), MON_8AM, TUE_1AM, True),
        (((MON_8AM,), (TUE_1AM,)), TUE_1AM, TUE_11AM, True),
        (((TUE_11AM,), (MON_1AM,)), TUE_11AM, TUE_1AM, False),
        (((WED_2PM,), (MON_1AM, TUE_1AM, WED_1AM)), WED_2PM, TUE_1AM, False),
    ],
)
def test_starts_ends_and_consistency_of_table_4(vector: Vector, starts: int, ends: int, consistent: bool) -> None:
    clock = PlanningClock(Timeline({"crawl": CRAWLS, "score": SCORES}, NOW), {"joined": ("crawl", "score")})
    pathway_ends = clock.find_ends("joined", vector)
    assert (find_start(vector), min(pathway_ends), compute_inconsistency(vector, pathway_ends) < 0) == (
        starts,
        ends,
        consistent,
    )


def test_the_deltas_of_section_2_3_and_the_consumer_of_section_2_4() -> None:
    """Pages are joined as they arrive, with the current scores."""
    inventory = LastingInventory(GraphIndex(JOIN))
    versions: dict[str, list[int]] = {"crawl": [SUN_3PM], "score": [MON_1AM]}
    inventory.add_block(BlockNode("crawl", B, None, ((SUN_3PM,),), DataSize(1000, 1000)))
    inventory.add_block(BlockNode("score", B, None, ((MON_1AM,),), DataSize(10, 10)))
    apply_plan(inventory, find_plan(inventory, "index", Timeline(versions, MON_1AM + 1)))
    deltas, delivered = [], []
    for time in sorted([*CRAWLS[1:], *SCORES[1:]]):
        channel = "crawl" if time in CRAWLS else "score"
        if channel == "crawl":
            inventory.add_block(BlockNode("crawl", M, ((versions["crawl"][-1],),), ((time,),), DataSize(5, 5)))
        else:
            inventory.add_block(BlockNode("score", B, None, ((time,),), DataSize(10, 10)))
        versions[channel].append(time)
        if channel == "crawl":
            block = apply_plan(inventory, find_plan(inventory, "index", Timeline(versions, time + 1)))
            deltas.append((block.source, block.target))
            delivered.append(inventory.delivered["index"])
    assert deltas == [
        (((SUN_3PM,), (MON_1AM,)), ((MON_8AM,), (MON_1AM,))),
        (((MON_8AM,), (TUE_1AM,)), ((TUE_11AM,), (TUE_1AM,))),
        (((TUE_11AM,), (TUE_1AM,)), ((TUE_5PM,), (TUE_1AM,))),
        (((TUE_5PM,), (WED_1AM,)), ((WED_2PM,), (WED_1AM,))),
    ]
    assert delivered == [
        ((MON_8AM,), (MON_1AM,)),
        ((TUE_11AM,), (MON_1AM, TUE_1AM)),
        ((TUE_5PM,), (MON_1AM, TUE_1AM)),
        ((WED_2PM,), (MON_1AM, TUE_1AM, WED_1AM)),
    ]


def test_the_union_of_section_3_3() -> None:
    """The delta of the second crawl at ten o'clock is read, that of the first is deferred."""
    requirements = {
        "both": (PortRequirement(D), PortRequirement(D)),
        "left": (PortRequirement(D), NOTHING),
        "right": (NOTHING, PortRequirement(D)),
    }
    variants = (
        VariantNode("batch", (PortRequirement(B), PortRequirement(B)), (B,)),
        *(VariantNode(n, t, (D,)) for n, t in requirements.items()),
    )
    bounds = ChannelBounds({("first",): 24, ("second",): 0})
    channels = (ChannelNode("first"), ChannelNode("second"), ChannelNode("all", bounds, accepts=frozenset([B, D])))
    inventory = LastingInventory(
        GraphIndex(PlanningGraph(channels, (TaskNode("union", ("first", "second"), ("all",), variants),)))
    )
    for name in ("first", "second"):
        inventory.add_block(BlockNode(name, B, None, ((9,),), DataSize(100, 100)))
        inventory.add_block(BlockNode(name, D, ((9,),), ((10,),), DataSize(5, 5)))
    inventory.deliver_block(BlockNode("all", B, None, ((9,), (9,))))
    block = apply_plan(inventory, find_plan(inventory, "all", Timeline({"first": [9, 10], "second": [9, 10]}, 11)))
    assert (block.source, block.target) == (((), (9,)), ((), (10,)))
    assert inventory.delivered["all"] == ((9,), (10,))


DAY = 24
QUEUE = PlanningGraph(
    (
        ChannelNode("fetched"),
        ChannelNode("links"),
        ChannelNode("indegrees"),
        ChannelNode("queue", ChannelBounds({("fetched",): 0}, inconsistency=7 * DAY), accepts=frozenset([B])),
    ),
    (
        TaskNode("count", ("links",), ("indegrees",), (VariantNode("batch", (PortRequirement(B),), (B,)),)),
        TaskNode(
            "select",
            ("fetched", "indegrees"),
            ("queue",),
            (VariantNode("batch", (PortRequirement(B), PortRequirement(B)), (B,)),),
        ),
    ),
)


@pytest.mark.parametrize(("long_term", "version"), [(True, 8 * DAY), (False, DAY)])
def test_after_the_week_of_section_6_3_indegrees_are_fully_refreshed(long_term: bool, version: int) -> None:
    """Counting the links of the first day, valid until the sixth, is cheaper, but must be repeated soon."""
    inventory = LastingInventory(GraphIndex(QUEUE))
    versions = {"fetched": [1, 9 * DAY], "links": [1, DAY, 6 * DAY, 8 * DAY]}
    for name, times in versions.items():
        for time in times:
            inventory.add_block(BlockNode(name, B, None, ((time,),), DataSize(time, time)))
    inventory.add_block(BlockNode("indegrees", B, None, ((1,),), DataSize(1, 1)))
    inventory.deliver_block(BlockNode("queue", B, None, ((1,), (1,))))
    time = Timeline(versions, 9 * DAY + 1)
    plan = find_plan(inventory, "queue", time, SearchRules(long_term=long_term))
    assert plan.delivers is not None
    assert plan.delivers.target == ((9 * DAY,), (version,))


def test_replacing_old_versions_without_new_input_is_progress() -> None:
    """Progress is measured by ends: the oldest versions are replaced. By starts, there would be no plan."""
    bounds = ChannelBounds({("crawl",): 0, ("score",): 48}, inconsistency=WEEK)
    graph = PlanningGraph((*JOIN.channels[:2], ChannelNode("index", bounds, accepts=frozenset([B, D]))), JOIN.tasks)
    inventory = LastingInventory(GraphIndex(graph))
    inventory.add_block(BlockNode("crawl", B, None, ((WED_2PM,),), DataSize(1000, 1000)))
    inventory.add_block(BlockNode("score", B, None, ((WED_1AM,),), DataSize(10, 10)))
    inventory.deliver_block(BlockNode("index", B, None, ((WED_2PM,), (MON_1AM, TUE_1AM, WED_1AM))))
    time = Timeline({"crawl": CRAWLS, "score": SCORES}, TUE_1AM + 48 + 1)
    plan = find_plan(inventory, "index", time)
    assert [(s.task, s.variant) for s in plan.steps] == [("join", "batch")]
    assert plan.delivers is not None
    assert find_start(plan.delivers.target) == find_start(inventory.delivered["index"])
    assert plan.delivers.target == ((WED_2PM,), (WED_1AM,))
