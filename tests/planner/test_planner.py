"""Plans and rejected alternatives, search rules and baseline planners."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from benchmarks.workflows.baselines import GreedyPlanner, RandomPlanner
from benchmarks.workflows.inventory import LastingInventory, find_due_time
from tests.planner.random_workflows import JOIN, LINEAR, SPLIT, UNION, Arrival, B, D, History, W, is_too_stale

from tidemill.model.time import Timeline
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
from tidemill.planner.planner import DynamicProgrammingPlanner
from tidemill.planner.pruning import ALL, SearchRules, relax_rules
from tidemill.planner.steps import CostEstimate, PlanResult, RejectionReason
from tidemill.planner.vector import Vector

ACCEPTED = frozenset([B, D])


def cost_by_bytes(task: str, variant: str, reads: Sequence[BlockNode]) -> CostEstimate:
    return CostEstimate(sum(b.size.bytes for b in reads), (DataSize(1, 1),) * (2 if task == "split" else 1))


def build_vector(*versions: int) -> tuple[tuple[int, ...], ...]:
    return tuple((v,) for v in versions)


def build_join_inventory(inconsistency: int | None = None, staleness: int = 0) -> LastingInventory:
    """Pages at 1 and 5 and scores at 2, joined at (1, 2) and delivered."""
    graph = PlanningGraph(
        (
            ChannelNode("p", conversions=(APPLY,)),
            ChannelNode("s"),
            ChannelNode("out", ChannelBounds({("p",): staleness}, inconsistency), ACCEPTED),
        ),
        (TaskNode("join", ("p", "s"), ("out",), JOIN),),
    )
    inventory = LastingInventory(GraphIndex(graph))
    inventory.add_block(BlockNode("p", B, None, build_vector(1), DataSize(100, 100)))
    inventory.add_block(BlockNode("p", D, build_vector(1), build_vector(5), DataSize(5, 5)))
    inventory.add_block(BlockNode("s", B, None, build_vector(2), DataSize(10, 10)))
    inventory.add_block(BlockNode("out", B, None, build_vector(1, 2), DataSize(100, 100)))
    inventory.deliver_block(BlockNode("out", B, None, build_vector(1, 2)))
    return inventory


TIME = Timeline({"p": [1, 5], "s": [2]}, 6)


def plan_output(inventory: LastingInventory, rules: SearchRules = ALL, time: Timeline = TIME) -> PlanResult:
    return DynamicProgrammingPlanner(inventory.index, cost_by_bytes, rules).find_plan(inventory, "out", time)


def test_a_plan_has_steps_reads_and_costs() -> None:
    plan = plan_output(build_join_inventory()).plan
    assert plan is not None
    (step,) = plan.steps
    assert (step.task, step.variant, step.cost, plan.cost) == ("join", "left", 15.0, 15.0)
    assert [(b.channel, b.target) for b in step.reads] == [("p", build_vector(5)), ("s", build_vector(2))]
    assert plan.delivers == step.writes[0] == BlockNode("out", D, build_vector(1, 2), build_vector(5, 2))


def test_rejected_alternatives_have_costs_and_reasons() -> None:
    """Alternatives without deltas of pages are compared; a costlier derivation of the same block is not listed."""
    inventory = build_join_inventory()
    inventory.add_block(BlockNode("p", B, None, build_vector(5), DataSize(105, 105)))
    rejected = {(r.variant, r.reason, r.cost) for r in plan_output(inventory).rejected}
    assert ("batch", RejectionReason.COSTLIER, 115.0) in rejected
    assert ("batch", RejectionReason.NO_PROGRESS, None) not in rejected


def test_a_delta_that_does_not_apply_to_the_consumer_is_rejected_without_a_cost() -> None:
    inventory = build_join_inventory()
    inventory.deliver_block(BlockNode("out", B, None, build_vector(4, 2)))
    answer = plan_output(inventory, time=Timeline({"p": [1, 4, 5], "s": [2]}, 6))
    assert ("left", RejectionReason.ILLEGAL, None) in {(r.variant, r.reason, r.cost) for r in answer.rejected}
    assert answer.plan is not None
    assert [s.variant for s in answer.plan.steps] == ["strong to base", "batch"]


def test_there_is_no_plan_if_no_block_meets_the_bounds() -> None:
    """Scores end at 3 and pages begin at 5: an inconsistency of 2, and the newest scores have not arrived."""
    inventory = build_join_inventory(inconsistency=2)
    answer = plan_output(inventory, time=Timeline({"p": [1, 5], "s": [2, 3]}, 6))
    assert answer.plan is None
    assert {r.reason for r in answer.rejected} == {RejectionReason.INCONSISTENT}
    assert (
        plan_output(build_join_inventory(inconsistency=3), time=Timeline({"p": [1, 5], "s": [2, 3]}, 6)).plan
        is not None
    )


def test_an_output_never_moves_back_on_any_pathway() -> None:
    """The consumer has scores of 4, and only those of 2 exist: newer pages have to wait."""
    inventory = build_join_inventory()
    inventory.deliver_block(BlockNode("out", B, None, build_vector(1, 4)))
    answer = plan_output(inventory, time=Timeline({"p": [1, 5], "s": [2, 4]}, 6))
    assert answer.plan is None
    assert ("batch", RejectionReason.NO_PROGRESS) in {(r.variant, r.reason) for r in answer.rejected}


def test_a_task_with_two_outputs_is_one_step() -> None:
    graph = PlanningGraph(
        (
            ChannelNode("a"),
            ChannelNode("m"),
            ChannelNode("n"),
            ChannelNode("out", ChannelBounds({("a", "m"): 0, ("a", "n"): 50}), ACCEPTED),
        ),
        (TaskNode("split", ("a",), ("m", "n"), SPLIT), TaskNode("u", ("m", "n"), ("out",), UNION)),
    )
    history = History(graph, LastingInventory(GraphIndex(graph)))
    planner = DynamicProgrammingPlanner(history.inventory.index, cost_by_bytes)
    first = planner.find_plan(history.inventory, "out", history.time).plan
    assert first is not None
    history.run(first)
    history.arrive(Arrival("a", 3, whole=False))
    plan = planner.find_plan(history.inventory, "out", history.time).plan
    assert plan is not None
    assert [(s.variant, [b.channel for b in s.writes]) for s in plan.steps] == [
        ("incremental", ["m", "n"]),
        ("left", ["out"]),
    ]


def test_a_strict_variant_reads_only_consistent_inputs() -> None:
    def inventory(strict: bool) -> LastingInventory:
        variants = (VariantNode("batch", (PortRequirement(B), PortRequirement(B)), (B,), strict=strict),)
        channels = (
            ChannelNode("p"),
            ChannelNode("s"),
            ChannelNode("m"),
            ChannelNode("out", ChannelBounds({("p", "m"): 0}), ACCEPTED),
        )
        tasks = (TaskNode("join", ("p", "s"), ("m",), variants), TaskNode("copy", ("m",), ("out",), LINEAR))
        blocks = LastingInventory(GraphIndex(PlanningGraph(channels, tasks)))
        blocks.add_block(BlockNode("p", B, None, build_vector(5)))
        blocks.add_block(BlockNode("s", B, None, build_vector(2)))
        return blocks

    time = Timeline({"p": [5], "s": [2, 4]}, 6)
    assert plan_output(inventory(strict=False), time=time).plan is not None
    assert plan_output(inventory(strict=True), time=time).plan is None


def test_a_block_that_is_fresh_enough_is_not_recomputed() -> None:
    """Scores that are a day old are fresh enough, although recomputing them would cost little."""

    def inventory() -> LastingInventory:
        graph = PlanningGraph(
            (
                ChannelNode("p"),
                ChannelNode("c"),
                ChannelNode("s", ChannelBounds({("c",): 24})),
                ChannelNode("out", ChannelBounds({("p",): 0}), ACCEPTED),
            ),
            (TaskNode("count", ("c",), ("s",), LINEAR), TaskNode("join", ("p", "s"), ("out",), JOIN)),
        )
        blocks = LastingInventory(GraphIndex(graph))
        blocks.add_block(BlockNode("p", B, None, build_vector(9)))
        blocks.add_block(BlockNode("c", B, None, build_vector(8)))
        blocks.add_block(BlockNode("s", B, None, build_vector(1)))
        return blocks

    time = Timeline({"p": [9], "c": [1, 8]}, 10)
    reused, recomputed = (
        plan_output(inventory(), time=time),
        plan_output(inventory(), SearchRules(overkill=False), time),
    )
    assert reused.plan is not None
    assert recomputed.plan is not None
    assert reused.plan.delivers is not None
    assert recomputed.plan.delivers is not None
    assert reused.plan.delivers.target == build_vector(9, 1)
    assert recomputed.plan.delivers.target == build_vector(9, 8)


def test_a_plan_hidden_by_the_rules_is_found_by_a_counted_fallback() -> None:
    """Old scores are fresh enough by their bounds, but are inconsistent with the pages.

    Therefore overkill uses bounds from downstream; without those, it hides the plan until the rule is dropped.
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
    inventory = LastingInventory(GraphIndex(graph))
    inventory.add_block(BlockNode("p", B, None, build_vector(20)))
    inventory.add_block(BlockNode("c", B, None, build_vector(16)))
    inventory.add_block(BlockNode("s", B, None, build_vector(1)))
    time = Timeline({"p": [20], "c": [1, 10, 16]}, 21)
    answers = plan_output(inventory, time=time), plan_output(inventory, SearchRules(propagation=False), time)
    assert [a.fallbacks for a in answers] == [0, 1]
    assert answers[0].plan == answers[1].plan is not None


def test_the_parts_of_a_chain_are_used_if_the_chain_ends_too_late() -> None:
    """Pages of 5 and 9 are one chained delta, but scores changed at 8 and the new ones do not exist yet."""
    inventory = build_join_inventory(inconsistency=0, staleness=2)
    inventory.add_block(BlockNode("p", D, build_vector(5), build_vector(9), DataSize(5, 5)))
    assert len(list(inventory.list_blocks("p"))) == 2
    answer = plan_output(inventory, time=Timeline({"p": [1, 5, 9], "s": [2, 8]}, 10))
    assert answer.plan is not None
    assert answer.plan.delivers is not None
    assert (answer.plan.delivers.target, answer.fallbacks) == (build_vector(5, 2), 5)


def test_rules_are_dropped_one_after_the_other() -> None:
    dropped = [[n for n in ALL.__dataclass_fields__ if not getattr(rules, n)] for rules in relax_rules(ALL)]
    assert [len(d) for d in dropped] == [0, 1, 2, 3, 4, 5]
    assert dropped[-1] == ["chains", "propagation", "overkill", "long_term", "loose_ends"]
    assert len(list(relax_rules(SearchRules(overkill=False)))) == 5


@pytest.mark.parametrize("planner", ["greedy", "random"])
def test_baselines_reach_the_goal_one_step_at_a_time(planner: str) -> None:
    inventory = build_join_inventory()
    baseline = (
        GreedyPlanner(inventory.index, cost_by_bytes)
        if planner == "greedy"
        else RandomPlanner(inventory.index, cost_by_bytes, Random(3))
    )
    steps = 0
    while is_too_stale(inventory, "out", TIME):
        plan = baseline.find_plan(inventory, "out", TIME).plan
        assert plan is not None
        assert len(plan.steps) == 1
        inventory.add_block(plan.steps[0].writes[0])
        if plan.delivers is not None:
            inventory.deliver_block(plan.delivers)
        steps += 1
    assert 1 <= steps <= 10


def test_an_existing_block_is_only_delivered() -> None:
    inventory = build_join_inventory()
    inventory.add_block(BlockNode("out", D, build_vector(1, 2), build_vector(5, 2)))
    plan = plan_output(inventory).plan
    assert plan is not None
    assert (plan.steps, plan.cost, plan.delivers) == (
        (),
        0.0,
        BlockNode("out", D, build_vector(1, 2), build_vector(5, 2)),
    )


def test_the_due_time_of_an_output() -> None:
    inventory = build_join_inventory()
    assert find_due_time(inventory, "out", TIME) == 6
    assert find_due_time(inventory, "out", Timeline({"p": [1], "s": [2]}, 6)) is None
    assert find_due_time(LastingInventory(inventory.index), "out", TIME) == TIME.now


COUNT_VARIANTS = (
    VariantNode("batch", (PortRequirement(B),), (B,)),
    VariantNode("incremental", (PortRequirement(D),), (W,)),
)
"""A count whose changes are weak deltas, which are strengthened with the previous count."""

COUNTS = (
    BlockNode("a", B, None, build_vector(5), DataSize(200, 200)),
    BlockNode("a", D, build_vector(2), build_vector(5), DataSize(5, 5)),
    BlockNode("m", B, None, build_vector(1), DataSize(50, 50)),
    BlockNode("m", W, build_vector(1), build_vector(2), DataSize(5, 5)),
)
"""The count at 2, from which a delta to 5 would start, has no base, but one is cheap to derive."""


def cost_with_expensive_batch(task: str, variant: str, reads: Sequence[BlockNode]) -> CostEstimate:
    cost, sizes = cost_by_bytes(task, variant, reads)
    return CostEstimate(cost + 500.0 * (variant == "batch" and "out" in task), sizes)


def test_a_stale_base_to_start_from_does_not_compete_with_fresh_ones() -> None:
    """A count at 5 can be derived as well, but no delta from 2 applies to it."""
    graph = PlanningGraph(
        (
            ChannelNode("a"),
            ChannelNode("m", conversions=(APPLY_WEAK, STRENGTHEN)),
            ChannelNode("out", ChannelBounds({("a", "m"): 0}), ACCEPTED),
        ),
        (TaskNode("count", ("a",), ("m",), COUNT_VARIANTS), TaskNode("make out", ("m",), ("out",), LINEAR)),
    )
    inventory = build_inventory(graph, *COUNTS, delivered=build_vector(2))
    answer = DynamicProgrammingPlanner(inventory.index, cost_with_expensive_batch).find_plan(
        inventory, "out", Timeline({"a": [1, 2, 5]}, 6)
    )
    assert answer.plan is not None
    assert {s.variant for s in answer.plan.steps} == {"incremental", "weak to base", "weak to strong"}
    assert answer.fallbacks == 0


def test_a_dominated_base_can_still_be_a_starting_point() -> None:
    """The count at 5 is better to read than the one at 2, but only the one at 2 can be a starting point."""
    both = VariantNode("both", (PortRequirement(D, needs_old_base=True), PortRequirement(D, needs_old_base=True)), (D,))
    graph = PlanningGraph(
        (
            ChannelNode("p"),
            ChannelNode("a"),
            ChannelNode("m", conversions=(APPLY_WEAK, STRENGTHEN)),
            ChannelNode("out", ChannelBounds({("p",): 0}), ACCEPTED),
        ),
        (
            TaskNode("count", ("a",), ("m",), COUNT_VARIANTS),
            TaskNode(
                "make out",
                ("p", "m"),
                ("out",),
                (VariantNode("batch", (PortRequirement(B), PortRequirement(B)), (B,)), both),
            ),
        ),
    )
    pages = (
        BlockNode("p", B, None, build_vector(3)),
        BlockNode("p", D, build_vector(3), build_vector(6)),
        BlockNode("p", B, None, build_vector(6)),
    )
    inventory = build_inventory(graph, *pages, *COUNTS[:2], delivered=build_vector(3, 2))
    inventory.add_block(BlockNode("m", W, build_vector(1), build_vector(2), DataSize(5, 5)))
    inventory.add_block(BlockNode("m", B, None, build_vector(1), DataSize(50, 50)))
    time = Timeline({"p": [3, 6], "a": [1, 2, 5]}, 7)
    answer = DynamicProgrammingPlanner(
        inventory.index, cost_with_expensive_batch, SearchRules(overkill=False)
    ).find_plan(inventory, "out", time)
    assert answer.plan is not None
    assert [s.variant for s in answer.plan.steps if s.task == "make out"] == ["both"]
    assert answer.fallbacks == 0


def test_a_delta_that_does_not_apply_does_not_dominate_one_that_does() -> None:
    """The consumer has version 1: the delta from 1 to 5 applies, and the later one from 3 to 6 does not.

    The later one is not excluded at once, because applied to a base of the output it might yield an accepted base.
    """
    graph = PlanningGraph(
        (ChannelNode("a"), ChannelNode("out", ChannelBounds({("a",): 1}), ACCEPTED, (APPLY,))),
        (TaskNode("t", ("a",), ("out",), LINEAR),),
    )
    deltas = (
        BlockNode("a", D, build_vector(1), build_vector(5), DataSize(5, 5)),
        BlockNode("a", D, build_vector(3), build_vector(6), DataSize(1, 1)),
    )
    inventory = build_inventory(
        graph, *deltas, BlockNode("a", B, None, build_vector(6), DataSize(100, 100)), delivered=build_vector(1)
    )
    answer = plan_output(inventory, time=Timeline({"a": [1, 3, 5, 6]}, 7))
    assert answer.plan is not None
    assert (answer.plan.delivers, answer.plan.cost) == (BlockNode("out", D, build_vector(1), build_vector(5)), 5.0)
    assert answer.fallbacks == 0


def build_deltas(channel: str, *spans: tuple[int, int]) -> list[BlockNode]:
    return [BlockNode(channel, D, build_vector(a), build_vector(b), DataSize(5, 5)) for a, b in spans]


COPY_TWICE = PlanningGraph(
    (ChannelNode("a"), ChannelNode("m"), ChannelNode("out", ChannelBounds({("a", "m"): 3}), frozenset([D]))),
    (TaskNode("t", ("a",), ("m",), LINEAR), TaskNode("u", ("m",), ("out",), LINEAR)),
)
"""An output that takes only deltas, behind a channel of deltas."""


def test_a_delta_is_not_superfluous_because_another_that_starts_elsewhere_is_fresh_enough() -> None:
    inventory = build_inventory(
        COPY_TWICE, *build_deltas("a", (3, 6)), *build_deltas("m", (1, 5)), delivered=build_vector(3)
    )
    answer = plan_output(inventory, time=Timeline({"a": [1, 3, 5, 6]}, 7))
    assert answer.plan is not None
    assert (answer.plan.delivers, answer.fallbacks) == (*build_deltas("out", (3, 6)), 0)


def test_a_later_delta_that_starts_elsewhere_outdoes_none() -> None:
    """The output is at 3; the delta from 4 to 6 starts where a block of its channel ends, but does not apply."""
    inventory = build_inventory(
        COPY_TWICE,
        *build_deltas("a", (4, 6), (3, 5)),
        BlockNode("m", B, None, build_vector(4), DataSize(90, 90)),
        delivered=build_vector(3),
    )
    answer = plan_output(inventory, SearchRules(overkill=False), Timeline({"a": [1, 3, 4, 5, 6]}, 7))
    assert answer.plan is not None
    assert (answer.plan.delivers, answer.fallbacks) == (*build_deltas("out", (3, 5)), 0)


def test_a_delta_that_leads_the_consumer_less_far_does_not_dominate() -> None:
    """New pages with scores of 4 end later, but leave the consumer's scores at 2; the other brings those of 3."""
    inventory = build_join_inventory()
    inventory.add_block(BlockNode("p", B, None, build_vector(5), DataSize(105, 105)))
    inventory.add_block(BlockNode("s", D, build_vector(2), build_vector(3), DataSize(1, 1)))
    inventory.add_block(BlockNode("s", B, None, build_vector(4), DataSize(800, 800)))
    answer = plan_output(inventory, SearchRules(overkill=False), Timeline({"p": [1, 5], "s": [2, 3, 4]}, 6))
    assert answer.plan is not None
    assert (answer.plan.cost, answer.plan.delivers) == (
        116.0,
        BlockNode("out", D, build_vector(1, 2), build_vector(5, 3)),
    )


def build_inventory(graph: PlanningGraph, *blocks: BlockNode, delivered: Vector) -> LastingInventory:
    """An inventory of blocks and of an output that the consumer has up to a vector."""
    inventory = LastingInventory(GraphIndex(graph))
    for block in (*blocks, BlockNode("out", B, None, delivered, DataSize(90, 90))):
        inventory.add_block(block)
    inventory.deliver_block(BlockNode("out", B, None, delivered))
    return inventory
