"""What an answer says, and what the rules and the baselines do."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from tests.planner.worlds import JOIN, LINEAR, SPLIT, UNION, Arrival, B, D, History, W

from tidemill.model.time import Timeline
from tidemill.planner.baselines import GreedyPlanner, RandomPlanner
from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.graph import (
    APPLY,
    APPLY_WEAK,
    STRENGTHEN,
    BlockNode,
    ChannelBounds,
    ChannelNode,
    DataSize,
    PlanningGraph,
    PortRequirement,
    TaskNode,
    VariantNode,
)
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.planner import DynamicProgrammingPlanner, find_due_time, is_too_stale
from tidemill.planner.search_rules import ALL, SearchRules, relax_rules
from tidemill.planner.steps import CostEstimate, PlanResult, RejectionReason
from tidemill.planner.vector import Vector

ACCEPTED = frozenset([B, D])


def by_bytes(task: str, variant: str, reads: Sequence[BlockNode]) -> CostEstimate:
    return CostEstimate(sum(b.size.bytes for b in reads), (DataSize(1, 1),) * (2 if task == "split" else 1))


def at(*versions: int) -> tuple[tuple[int, ...], ...]:
    return tuple((v,) for v in versions)


def joined(inconsistency: int | None = None, staleness: int = 0) -> BlockInventory:
    """Pages at 1 and 5 and scores at 2, joined at (1, 2) and delivered."""
    graph = PlanningGraph(
        (
            ChannelNode("p", conversions=(APPLY,)),
            ChannelNode("s"),
            ChannelNode("out", ChannelBounds({("p",): staleness}, inconsistency), ACCEPTED),
        ),
        (TaskNode("join", ("p", "s"), ("out",), JOIN),),
    )
    stock = BlockInventory(GraphIndex(graph))
    stock.add_block(BlockNode("p", B, None, at(1), DataSize(100, 100)))
    stock.add_block(BlockNode("p", D, at(1), at(5), DataSize(5, 5)))
    stock.add_block(BlockNode("s", B, None, at(2), DataSize(10, 10)))
    stock.add_block(BlockNode("out", B, None, at(1, 2), DataSize(100, 100)))
    stock.deliver_block(BlockNode("out", B, None, at(1, 2)))
    return stock


TIME = Timeline({"p": [1, 5], "s": [2]}, 6)


def asked(stock: BlockInventory, rules: SearchRules = ALL, time: Timeline = TIME) -> PlanResult:
    return DynamicProgrammingPlanner(stock.index, by_bytes, rules).find_plan(stock, "out", time)


def test_a_plan_says_what_is_read_and_made_and_what_it_costs() -> None:
    plan = asked(joined()).plan
    assert plan is not None
    (step,) = plan.steps
    assert (step.task, step.variant, step.cost, plan.cost) == ("join", "left", 15.0, 15.0)
    assert [(b.channel, b.target) for b in step.reads] == [("p", at(5)), ("s", at(2))]
    assert plan.delivers == step.writes[0] == BlockNode("out", D, at(1, 2), at(5, 2))
    assert plan.reads == step.reads


def test_alternatives_come_with_costs_and_reasons() -> None:
    """Without pages as deltas in the join, the others are weighed; a dearer way to the same block is not a block."""
    stock = joined()
    stock.add_block(BlockNode("p", B, None, at(5), DataSize(105, 105)))
    rejected = {(r.variant, r.reason, r.cost) for r in asked(stock).rejected}
    assert ("batch", RejectionReason.COSTLIER, 115.0) in rejected
    assert ("batch", RejectionReason.NO_PROGRESS, None) not in rejected


def test_a_delta_that_does_not_start_where_the_consumer_is_is_rejected_before_it_is_priced() -> None:
    stock = joined()
    stock.deliver_block(BlockNode("out", B, None, at(4, 2)))
    answer = asked(stock, time=Timeline({"p": [1, 4, 5], "s": [2]}, 6))
    assert ("left", RejectionReason.ILLEGAL, None) in {(r.variant, r.reason, r.cost) for r in answer.rejected}
    assert answer.plan is not None
    assert [s.variant for s in answer.plan.steps] == ["strong to base", "batch"]


def test_where_nothing_keeps_the_bounds_there_is_no_plan_and_nothing_is_broken() -> None:
    """Scores ended at 3, pages begin at 5: two apart, and the newest scores have not come."""
    stock = joined(inconsistency=2)
    answer = asked(stock, time=Timeline({"p": [1, 5], "s": [2, 3]}, 6))
    assert answer.plan is None
    assert {r.reason for r in answer.rejected} == {RejectionReason.INCONSISTENT}
    assert asked(joined(inconsistency=3), time=Timeline({"p": [1, 5], "s": [2, 3]}, 6)).plan is not None


def test_an_output_never_goes_back_on_any_pathway() -> None:
    """The consumer has scores of 4, and only those of 2 are at hand: newer pages have to wait."""
    stock = joined()
    stock.deliver_block(BlockNode("out", B, None, at(1, 4)))
    answer = asked(stock, time=Timeline({"p": [1, 5], "s": [2, 4]}, 6))
    assert answer.plan is None
    assert ("batch", RejectionReason.NO_PROGRESS) in {(r.variant, r.reason) for r in answer.rejected}


def test_a_split_is_one_step_and_its_other_half_is_made_as_well() -> None:
    graph = PlanningGraph(
        (
            ChannelNode("a"),
            ChannelNode("m"),
            ChannelNode("n"),
            ChannelNode("out", ChannelBounds({("a", "m"): 0, ("a", "n"): 50}), ACCEPTED),
        ),
        (TaskNode("split", ("a",), ("m", "n"), SPLIT), TaskNode("u", ("m", "n"), ("out",), UNION)),
    )
    history = History(graph, BlockInventory(GraphIndex(graph)))
    planner = DynamicProgrammingPlanner(history.stock.index, by_bytes)
    first = planner.find_plan(history.stock, "out", history.time).plan
    assert first is not None
    history.run(first)
    history.arrive(Arrival("a", 3, whole=False))
    plan = planner.find_plan(history.stock, "out", history.time).plan
    assert plan is not None
    assert [(s.variant, [b.channel for b in s.writes]) for s in plan.steps] == [
        ("incremental", ["m", "n"]),
        ("left", ["out"]),
    ]


def test_a_strict_variant_takes_only_what_was_valid_together() -> None:
    def stock(strict: bool) -> BlockInventory:
        variants = (VariantNode("batch", (PortRequirement(B), PortRequirement(B)), (B,), strict=strict),)
        channels = (
            ChannelNode("p"),
            ChannelNode("s"),
            ChannelNode("m"),
            ChannelNode("out", ChannelBounds({("p", "m"): 0}), ACCEPTED),
        )
        tasks = (TaskNode("join", ("p", "s"), ("m",), variants), TaskNode("copy", ("m",), ("out",), LINEAR))
        made = BlockInventory(GraphIndex(PlanningGraph(channels, tasks)))
        made.add_block(BlockNode("p", B, None, at(5)))
        made.add_block(BlockNode("s", B, None, at(2)))
        return made

    apart = Timeline({"p": [5], "s": [2, 4]}, 6)
    assert asked(stock(strict=False), time=apart).plan is not None
    assert asked(stock(strict=True), time=apart).plan is None


def test_nothing_newer_is_made_where_something_is_new_enough() -> None:
    """Scores from counts: a day old is fresh enough, and counting anew would have cost little."""

    def stock() -> BlockInventory:
        graph = PlanningGraph(
            (
                ChannelNode("p"),
                ChannelNode("c"),
                ChannelNode("s", ChannelBounds({("c",): 24})),
                ChannelNode("out", ChannelBounds({("p",): 0}), ACCEPTED),
            ),
            (TaskNode("count", ("c",), ("s",), LINEAR), TaskNode("join", ("p", "s"), ("out",), JOIN)),
        )
        made = BlockInventory(GraphIndex(graph))
        made.add_block(BlockNode("p", B, None, at(9)))
        made.add_block(BlockNode("c", B, None, at(8)))
        made.add_block(BlockNode("s", B, None, at(1)))
        return made

    time = Timeline({"p": [9], "c": [1, 8]}, 10)
    kept, anew = asked(stock(), time=time), asked(stock(), SearchRules(overkill=False), time)
    assert kept.plan is not None
    assert anew.plan is not None
    assert kept.plan.delivers is not None
    assert anew.plan.delivers is not None
    assert (kept.plan.delivers.target, kept.pruned["overkill"]) == (at(9, 1), 1)
    assert anew.plan.delivers.target == at(9, 8)


def test_a_plan_that_the_rules_hide_is_found_without_them_and_that_is_counted() -> None:
    """Old scores are fresh enough by their own bounds, but pages may not be joined with them.

    That is why overkill is judged by bounds from downstream; without those, it hides the plan until it is dropped.
    """
    graph = PlanningGraph(
        (
            ChannelNode("p"),
            ChannelNode("c"),
            ChannelNode("s"),
            ChannelNode("out", ChannelBounds({("p",): 0}, inconsistency=5), ACCEPTED),
        ),
        (
            TaskNode("count", ("c",), ("s",), LINEAR),
            TaskNode(
                "join", ("p", "s"), ("out",), (VariantNode("batch", (PortRequirement(B), PortRequirement(B)), (B,)),)
            ),
        ),
    )
    stock = BlockInventory(GraphIndex(graph))
    stock.add_block(BlockNode("p", B, None, at(20)))
    stock.add_block(BlockNode("c", B, None, at(16)))
    stock.add_block(BlockNode("s", B, None, at(1)))
    time = Timeline({"p": [20], "c": [1, 10, 16]}, 21)
    answers = asked(stock, time=time), asked(stock, SearchRules(propagation=False), time)
    assert [a.fallbacks for a in answers] == [0, 1]
    assert answers[0].plan == answers[1].plan is not None


def test_where_a_chain_leads_too_far_its_parts_are_taken() -> None:
    """Pages of 5 and 9 are one delta by now. But scores have changed at 8, and the new ones are not at hand."""
    stock = joined(inconsistency=0, staleness=2)
    stock.add_block(BlockNode("p", D, at(5), at(9), DataSize(5, 5)))
    assert len(list(stock.list_blocks("p"))) == 2
    answer = asked(stock, time=Timeline({"p": [1, 5, 9], "s": [2, 8]}, 10))
    assert answer.plan is not None
    assert answer.plan.delivers is not None
    assert (answer.plan.delivers.target, answer.fallbacks) == (at(5, 2), 5)


def test_the_ladder_drops_one_rule_after_the_other() -> None:
    dropped = [[n for n in ALL.__dataclass_fields__ if not getattr(rules, n)] for rules in relax_rules(ALL)]
    assert [len(d) for d in dropped] == [0, 1, 2, 3, 4, 5]
    assert dropped[-1] == ["chains", "propagation", "overkill", "long_term", "loose_ends"]
    assert len(list(relax_rules(SearchRules(overkill=False)))) == 5


@pytest.mark.parametrize("planner", ["greedy", "chance"])
def test_baselines_come_to_the_goal_one_step_at_a_time(planner: str) -> None:
    stock = joined()
    made = (
        GreedyPlanner(stock.index, by_bytes) if planner == "greedy" else RandomPlanner(stock.index, by_bytes, Random(3))
    )
    steps = 0
    while is_too_stale(stock, "out", TIME):
        plan = made.find_plan(stock, "out", TIME).plan
        assert plan is not None
        assert len(plan.steps) == 1
        stock.add_block(plan.steps[0].writes[0])
        if plan.delivers is not None:
            stock.deliver_block(plan.delivers)
        steps += 1
    assert 1 <= steps <= 10


def test_what_is_there_already_is_only_handed_over() -> None:
    stock = joined()
    stock.add_block(BlockNode("out", D, at(1, 2), at(5, 2)))
    plan = asked(stock).plan
    assert plan is not None
    assert (plan.steps, plan.cost, plan.delivers) == ((), 0.0, BlockNode("out", D, at(1, 2), at(5, 2)))


def test_when_an_output_is_due() -> None:
    stock = joined()
    assert find_due_time(stock, "out", TIME) == 6
    assert find_due_time(stock, "out", Timeline({"p": [1], "s": [2]}, 6)) is None
    assert find_due_time(BlockInventory(stock.index), "out", TIME) == TIME.now


COUNTED = (VariantNode("batch", (PortRequirement(B),), (B,)), VariantNode("incremental", (PortRequirement(D),), (W,)))
"""A count whose changes are weak deltas, which become strong with the help of the count before them."""

COUNTS = (
    BlockNode("a", B, None, at(5), DataSize(200, 200)),
    BlockNode("a", D, at(2), at(5), DataSize(5, 5)),
    BlockNode("m", B, None, at(1), DataSize(50, 50)),
    BlockNode("m", W, at(1), at(2), DataSize(5, 5)),
)
"""Of the count at 2, from which a delta to 5 would start, there is no base, but it is easily made."""


def dear_in_batch(task: str, variant: str, reads: Sequence[BlockNode]) -> CostEstimate:
    cost, sizes = by_bytes(task, variant, reads)
    return CostEstimate(cost + 500.0 * (variant == "batch" and "out" in task), sizes)


def test_a_stale_base_to_start_from_does_not_compete_with_fresh_ones() -> None:
    """A count at 5 can be made as well. No delta from 2 can be applied to it."""
    graph = PlanningGraph(
        (
            ChannelNode("a"),
            ChannelNode("m", conversions=(APPLY_WEAK, STRENGTHEN)),
            ChannelNode("out", ChannelBounds({("a", "m"): 0}), ACCEPTED),
        ),
        (TaskNode("count", ("a",), ("m",), COUNTED), TaskNode("make out", ("m",), ("out",), LINEAR)),
    )
    stock = stocked(graph, *COUNTS, delivered=at(2))
    answer = DynamicProgrammingPlanner(stock.index, dear_in_batch).find_plan(
        stock, "out", Timeline({"a": [1, 2, 5]}, 6)
    )
    assert answer.plan is not None
    assert {s.variant for s in answer.plan.steps} == {"incremental", "weak to base", "weak to strong"}
    assert answer.fallbacks == 0


def test_a_fresh_base_that_is_outdone_still_serves_those_who_start_from_it() -> None:
    """The count at 2 may be read for what it is, too; for that the one at 5 is better, but for nothing else."""
    both = VariantNode("both", (PortRequirement(D, needs_old_base=True), PortRequirement(D, needs_old_base=True)), (D,))
    graph = PlanningGraph(
        (
            ChannelNode("p"),
            ChannelNode("a"),
            ChannelNode("m", conversions=(APPLY_WEAK, STRENGTHEN)),
            ChannelNode("out", ChannelBounds({("p",): 0}), ACCEPTED),
        ),
        (
            TaskNode("count", ("a",), ("m",), COUNTED),
            TaskNode(
                "make out",
                ("p", "m"),
                ("out",),
                (VariantNode("batch", (PortRequirement(B), PortRequirement(B)), (B,)), both),
            ),
        ),
    )
    pages = BlockNode("p", B, None, at(3)), BlockNode("p", D, at(3), at(6)), BlockNode("p", B, None, at(6))
    stock = stocked(graph, *pages, *COUNTS[:2], delivered=at(3, 2))
    stock.add_block(BlockNode("m", W, at(1), at(2), DataSize(5, 5)))
    stock.add_block(BlockNode("m", B, None, at(1), DataSize(50, 50)))
    time = Timeline({"p": [3, 6], "a": [1, 2, 5]}, 7)
    answer = DynamicProgrammingPlanner(stock.index, dear_in_batch, SearchRules(overkill=False)).find_plan(
        stock, "out", time
    )
    assert answer.plan is not None
    assert [s.variant for s in answer.plan.steps if s.task == "make out"] == ["both"]
    assert answer.fallbacks == 0


def test_a_delta_that_cannot_be_applied_does_not_outdo_one_that_can() -> None:
    """The consumer has version 1: the delta from there to 5 will do, the one from 3 to 6 will not, though it is later.

    It is not left out at once, because applied to a base of the output it might lead to a base that will do.
    """
    graph = PlanningGraph(
        (ChannelNode("a"), ChannelNode("out", ChannelBounds({("a",): 1}), ACCEPTED, (APPLY,))),
        (TaskNode("t", ("a",), ("out",), LINEAR),),
    )
    deltas = BlockNode("a", D, at(1), at(5), DataSize(5, 5)), BlockNode("a", D, at(3), at(6), DataSize(1, 1))
    stock = stocked(graph, *deltas, BlockNode("a", B, None, at(6), DataSize(100, 100)), delivered=at(1))
    answer = asked(stock, time=Timeline({"a": [1, 3, 5, 6]}, 7))
    assert answer.plan is not None
    assert (answer.plan.delivers, answer.plan.cost) == (BlockNode("out", D, at(1), at(5)), 5.0)
    assert answer.fallbacks == 0


def stocked(graph: PlanningGraph, *blocks: BlockNode, delivered: Vector) -> BlockInventory:
    """Blocks, and an output of which the consumer has this."""
    stock = BlockInventory(GraphIndex(graph))
    for block in (*blocks, BlockNode("out", B, None, delivered, DataSize(90, 90))):
        stock.add_block(block)
    stock.deliver_block(BlockNode("out", B, None, delivered))
    return stock
