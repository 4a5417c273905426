"""The examples of the paper, worked by the planner: crawls and click scores of three days, and two crawls."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import BlockInventory
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
from tidemill.planner.search_rules import ALL, SearchRules
from tidemill.planner.steps import CostEstimate, Plan
from tidemill.planner.vector import PlanningClock, Vector, find_end, find_start

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


def cheap_where_little_is_read(task: str, variant: str, reads: Sequence[BlockNode]) -> CostEstimate:
    return CostEstimate(sum(b.size.bytes for b in reads), (DataSize(1, 1),))


def planned(stock: BlockInventory, output: str, time: Timeline, rules: SearchRules = ALL) -> Plan:
    answer = DynamicProgrammingPlanner(stock.index, cheap_where_little_is_read, rules).find_plan(stock, output, time)
    assert answer.plan is not None
    return answer.plan


def carried_out(stock: BlockInventory, plan: Plan) -> BlockNode:
    for step in plan.steps:
        for block in step.writes:
            stock.add_block(block)
    assert plan.delivers is not None
    stock.deliver_block(plan.delivers)
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
def test_table_4(vector: Vector, starts: int, ends: int, consistent: bool) -> None:
    clock = PlanningClock(Timeline({"crawl": CRAWLS, "score": SCORES}, NOW), {"joined": ("crawl", "score")})
    found = clock.find_ends("joined", vector)
    assert (find_start(vector), find_end(found), compute_inconsistency(vector, found) < 0) == (starts, ends, consistent)


def test_the_deltas_of_2_3_and_what_the_consumer_has_in_2_4() -> None:
    """Pages are joined as they come, each time with the scores that are there."""
    stock = BlockInventory(GraphIndex(JOIN))
    seen: dict[str, list[int]] = {"crawl": [SUN_3PM], "score": [MON_1AM]}
    stock.add_block(BlockNode("crawl", B, None, ((SUN_3PM,),), DataSize(1000, 1000)))
    stock.add_block(BlockNode("score", B, None, ((MON_1AM,),), DataSize(10, 10)))
    carried_out(stock, planned(stock, "index", Timeline(seen, MON_1AM + 1)))
    made, has = [], []
    for when in sorted([*CRAWLS[1:], *SCORES[1:]]):
        channel = "crawl" if when in CRAWLS else "score"
        if channel == "crawl":
            stock.add_block(BlockNode("crawl", M, ((seen["crawl"][-1],),), ((when,),), DataSize(5, 5)))
        else:
            stock.add_block(BlockNode("score", B, None, ((when,),), DataSize(10, 10)))
        seen[channel].append(when)
        if channel == "crawl":
            block = carried_out(stock, planned(stock, "index", Timeline(seen, when + 1)))
            made.append((block.source, block.target))
            has.append(stock.get_delivered("index"))
    assert made == [
        (((SUN_3PM,), (MON_1AM,)), ((MON_8AM,), (MON_1AM,))),
        (((MON_8AM,), (TUE_1AM,)), ((TUE_11AM,), (TUE_1AM,))),
        (((TUE_11AM,), (TUE_1AM,)), ((TUE_5PM,), (TUE_1AM,))),
        (((TUE_5PM,), (WED_1AM,)), ((WED_2PM,), (WED_1AM,))),
    ]
    assert has == [
        ((MON_8AM,), (MON_1AM,)),
        ((TUE_11AM,), (MON_1AM, TUE_1AM)),
        ((TUE_5PM,), (MON_1AM, TUE_1AM)),
        ((WED_2PM,), (MON_1AM, TUE_1AM, WED_1AM)),
    ]


def test_the_union_of_3_3() -> None:
    """The second crawl's ten o'clock is taken in, the first's is left for later."""
    takes = {
        "both": (PortRequirement(D), PortRequirement(D)),
        "left": (PortRequirement(D), NOTHING),
        "right": (NOTHING, PortRequirement(D)),
    }
    variants = (
        VariantNode("batch", (PortRequirement(B), PortRequirement(B)), (B,)),
        *(VariantNode(n, t, (D,)) for n, t in takes.items()),
    )
    bounds = ChannelBounds({("first",): 24, ("second",): 0})
    channels = (ChannelNode("first"), ChannelNode("second"), ChannelNode("all", bounds, accepts=frozenset([B, D])))
    stock = BlockInventory(
        GraphIndex(PlanningGraph(channels, (TaskNode("union", ("first", "second"), ("all",), variants),)))
    )
    for name in ("first", "second"):
        stock.add_block(BlockNode(name, B, None, ((9,),), DataSize(100, 100)))
        stock.add_block(BlockNode(name, D, ((9,),), ((10,),), DataSize(5, 5)))
    stock.deliver_block(BlockNode("all", B, None, ((9,), (9,))))
    block = carried_out(stock, planned(stock, "all", Timeline({"first": [9, 10], "second": [9, 10]}, 11)))
    assert (block.source, block.target) == (((), (9,)), ((), (10,)))
    assert stock.get_delivered("all") == ((9,), (10,))


DAY = 24
TRAILING = PlanningGraph(
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


@pytest.mark.parametrize(("long_term", "brought_to"), [(True, 8 * DAY), (False, DAY)])
def test_after_the_week_of_6_3_indegrees_are_brought_up_to_date_not_just_under_the_bound(
    long_term: bool, brought_to: int
) -> None:
    """Counting the links of the first day, valid until the sixth, is cheaper, and has to be done again soon."""
    stock = BlockInventory(GraphIndex(TRAILING), SearchRules(long_term=long_term))
    versions = {"fetched": [1, 9 * DAY], "links": [1, DAY, 6 * DAY, 8 * DAY]}
    for name, times in versions.items():
        for when in times:
            stock.add_block(BlockNode(name, B, None, ((when,),), DataSize(when, when)))
    stock.add_block(BlockNode("indegrees", B, None, ((1,),), DataSize(1, 1)))
    stock.deliver_block(BlockNode("queue", B, None, ((1,), (1,))))
    time = Timeline(versions, 9 * DAY + 1)
    plan = planned(stock, "queue", time, SearchRules(long_term=long_term))
    assert plan.delivers is not None
    assert plan.delivers.target == ((9 * DAY,), (brought_to,))


def test_a_repair_that_brings_no_new_input_is_progress() -> None:
    """Order goes by ends: the newest versions are all there already, but the oldest go. By starts there is no plan."""
    bounds = ChannelBounds({("crawl",): 0, ("score",): 48}, inconsistency=WEEK)
    graph = PlanningGraph((*JOIN.channels[:2], ChannelNode("index", bounds, accepts=frozenset([B, D]))), JOIN.tasks)
    stock = BlockInventory(GraphIndex(graph))
    stock.add_block(BlockNode("crawl", B, None, ((WED_2PM,),), DataSize(1000, 1000)))
    stock.add_block(BlockNode("score", B, None, ((WED_1AM,),), DataSize(10, 10)))
    stock.deliver_block(BlockNode("index", B, None, ((WED_2PM,), (MON_1AM, TUE_1AM, WED_1AM))))
    time = Timeline({"crawl": CRAWLS, "score": SCORES}, TUE_1AM + 48 + 1)
    plan = planned(stock, "index", time)
    assert [(s.task, s.variant) for s in plan.steps] == [("join", "batch")]
    assert plan.delivers is not None
    assert find_start(plan.delivers.target) == find_start(stock.get_delivered("index"))
    assert plan.delivers.target == ((WED_2PM,), (WED_1AM,))
