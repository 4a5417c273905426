"""The examples of the paper, worked by the planner: crawls and click scores of three days, and two crawls."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import Stock
from tidemill.planner.bounds import apart
from tidemill.planner.graph import NOTHING, Block, Bounds, Channel, Graph, Shape, Size, Take, Task, Variant
from tidemill.planner.graph_index import Layout
from tidemill.planner.planner import DynamicProgram
from tidemill.planner.search import ALL, Rules
from tidemill.planner.steps import Estimate, Plan
from tidemill.planner.vector import Clock, Vector, end, start

B, D, M = Shape.BASE, Shape.STRONG, Shape.MONOTONE
# Hours since Sunday midnight.
SUN_3PM, MON_1AM, MON_8AM, TUE_1AM, TUE_11AM, TUE_5PM = 15, 25, 32, 49, 59, 65
WED_1AM, WED_2PM, NOW = 73, 86, 90
WEEK = 7 * 24
CRAWLS, SCORES = [SUN_3PM, MON_8AM, TUE_11AM, TUE_5PM, WED_2PM], [MON_1AM, TUE_1AM, WED_1AM]

JOIN = Graph(
    (
        Channel("crawl"),
        Channel("score"),
        Channel("index", Bounds({("crawl",): 0}, inconsistency=WEEK), accepts=frozenset([B, D])),
    ),
    (
        Task(
            "join",
            ("crawl", "score"),
            ("index",),
            (Variant("batch", (Take(B), Take(B)), (B,)), Variant("new pages", (Take(M), Take(B)), (M,))),
        ),
    ),
)


def cheap_where_little_is_read(task: str, variant: str, reads: Sequence[Block]) -> Estimate:
    return Estimate(sum(b.size.bytes for b in reads), (Size(1, 1),))


def planned(stock: Stock, output: str, time: Timeline, rules: Rules = ALL) -> Plan:
    answer = DynamicProgram(stock.layout, cheap_where_little_is_read, rules).plan(stock, output, time)
    assert answer.plan is not None
    return answer.plan


def carried_out(stock: Stock, plan: Plan) -> Block:
    for step in plan.steps:
        for block in step.makes:
            stock.add(block)
    assert plan.delivers is not None
    stock.deliver(plan.delivers)
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
    clock = Clock(Timeline({"crawl": CRAWLS, "score": SCORES}, NOW), {"joined": ("crawl", "score")})
    found = clock.ends("joined", vector)
    assert (start(vector), end(found), apart(vector, found) < 0) == (starts, ends, consistent)


def test_the_deltas_of_2_3_and_what_the_consumer_has_in_2_4() -> None:
    """Pages are joined as they come, each time with the scores that are there."""
    stock = Stock(Layout(JOIN))
    seen: dict[str, list[int]] = {"crawl": [SUN_3PM], "score": [MON_1AM]}
    stock.add(Block("crawl", B, None, ((SUN_3PM,),), Size(1000, 1000)))
    stock.add(Block("score", B, None, ((MON_1AM,),), Size(10, 10)))
    carried_out(stock, planned(stock, "index", Timeline(seen, MON_1AM + 1)))
    made, has = [], []
    for when in sorted([*CRAWLS[1:], *SCORES[1:]]):
        channel = "crawl" if when in CRAWLS else "score"
        if channel == "crawl":
            stock.add(Block("crawl", M, ((seen["crawl"][-1],),), ((when,),), Size(5, 5)))
        else:
            stock.add(Block("score", B, None, ((when,),), Size(10, 10)))
        seen[channel].append(when)
        if channel == "crawl":
            block = carried_out(stock, planned(stock, "index", Timeline(seen, when + 1)))
            made.append((block.source, block.target))
            has.append(stock.delivered("index"))
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
    takes = {"both": (Take(D), Take(D)), "left": (Take(D), NOTHING), "right": (NOTHING, Take(D))}
    variants = (Variant("batch", (Take(B), Take(B)), (B,)), *(Variant(n, t, (D,)) for n, t in takes.items()))
    bounds = Bounds({("first",): 24, ("second",): 0})
    channels = (Channel("first"), Channel("second"), Channel("all", bounds, accepts=frozenset([B, D])))
    stock = Stock(Layout(Graph(channels, (Task("union", ("first", "second"), ("all",), variants),))))
    for name in ("first", "second"):
        stock.add(Block(name, B, None, ((9,),), Size(100, 100)))
        stock.add(Block(name, D, ((9,),), ((10,),), Size(5, 5)))
    stock.deliver(Block("all", B, None, ((9,), (9,))))
    block = carried_out(stock, planned(stock, "all", Timeline({"first": [9, 10], "second": [9, 10]}, 11)))
    assert (block.source, block.target) == (((), (9,)), ((), (10,)))
    assert stock.delivered("all") == ((9,), (10,))


DAY = 24
TRAILING = Graph(
    (
        Channel("fetched"),
        Channel("links"),
        Channel("indegrees"),
        Channel("queue", Bounds({("fetched",): 0}, inconsistency=7 * DAY), accepts=frozenset([B])),
    ),
    (
        Task("count", ("links",), ("indegrees",), (Variant("batch", (Take(B),), (B,)),)),
        Task("select", ("fetched", "indegrees"), ("queue",), (Variant("batch", (Take(B), Take(B)), (B,)),)),
    ),
)


@pytest.mark.parametrize(("long_term", "brought_to"), [(True, 8 * DAY), (False, DAY)])
def test_after_the_week_of_6_3_indegrees_are_brought_up_to_date_not_just_under_the_bound(
    long_term: bool, brought_to: int
) -> None:
    """Counting the links of the first day, valid until the sixth, is cheaper, and has to be done again soon."""
    stock = Stock(Layout(TRAILING), Rules(long_term=long_term))
    versions = {"fetched": [1, 9 * DAY], "links": [1, DAY, 6 * DAY, 8 * DAY]}
    for name, times in versions.items():
        for when in times:
            stock.add(Block(name, B, None, ((when,),), Size(when, when)))
    stock.add(Block("indegrees", B, None, ((1,),), Size(1, 1)))
    stock.deliver(Block("queue", B, None, ((1,), (1,))))
    time = Timeline(versions, 9 * DAY + 1)
    plan = planned(stock, "queue", time, Rules(long_term=long_term))
    assert plan.delivers is not None
    assert plan.delivers.target == ((9 * DAY,), (brought_to,))


def test_a_repair_that_brings_no_new_input_is_progress() -> None:
    """Order goes by ends: the newest versions are all there already, but the oldest go. By starts there is no plan."""
    bounds = Bounds({("crawl",): 0, ("score",): 48}, inconsistency=WEEK)
    graph = Graph((*JOIN.channels[:2], Channel("index", bounds, accepts=frozenset([B, D]))), JOIN.tasks)
    stock = Stock(Layout(graph))
    stock.add(Block("crawl", B, None, ((WED_2PM,),), Size(1000, 1000)))
    stock.add(Block("score", B, None, ((WED_1AM,),), Size(10, 10)))
    stock.deliver(Block("index", B, None, ((WED_2PM,), (MON_1AM, TUE_1AM, WED_1AM))))
    time = Timeline({"crawl": CRAWLS, "score": SCORES}, TUE_1AM + 48 + 1)
    plan = planned(stock, "index", time)
    assert [(s.task, s.variant) for s in plan.steps] == [("join", "batch")]
    assert plan.delivers is not None
    assert start(plan.delivers.target) == start(stock.delivered("index"))
    assert plan.delivers.target == ((WED_2PM,), (WED_1AM,))
