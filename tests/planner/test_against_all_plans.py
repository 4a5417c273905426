"""The planner compared with all possible plans."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf

import pytest
from benchmarks.workflows.inventory import LastingInventory
from hypothesis import assume, given, settings
from tests.planner.random_workflows import Case, History, cases, cases_with_starts, costs, is_too_stale, unpack_vector
from tests.planner.reference import (
    PlanSpace,
    TooLarge,
    exclude_dominated,
    find_cheapest,
    find_cheapest_without_sharing,
    is_legal,
    makes_progress,
    meets_bounds,
)

from tidemill.model.provenance import apply_delta
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.planner import DynamicProgrammingPlanner
from tidemill.planner.pruning import ALL, NONE, SearchRules
from tidemill.planner.steps import Plan

OUT = "out"
RULES = {"all": ALL, "none": NONE} | {
    f"without {name}": replace(ALL, **{name: False}) for name in ALL.__dataclass_fields__
}


def check_plan(history: History, plan: Plan) -> None:
    """The delivered block meets every bound, applies to the consumer's content and advances it; all inputs exist."""
    block, index = plan.delivers, history.inventory.index
    assert block is not None
    pathways = index.pathways[OUT]
    delivered, target = (
        unpack_vector(history.inventory.delivered[OUT], pathways),
        unpack_vector(block.target, pathways),
    )
    if block.source is not None:
        source = unpack_vector(block.source, pathways)
        assert is_legal(delivered, source, target)
        target = apply_delta(delivered, source, target)
    assert meets_bounds(index.channels[OUT], target, history.time)
    assert makes_progress(delivered, target, history.time)
    available = set(history.all_blocks)
    for step in plan.steps:
        for read in step.reads:
            assert read in available or read.source is not None, f"{read} neither exists nor is a chain"
        available.update(step.writes)
    assert block in available or block.source is not None


def compare(case: Case, rules: SearchRules, *, exact: bool) -> None:
    """Replay a history and compare each plan with all possible plans."""
    index = GraphIndex(case.graph)
    history = History(case.graph, LastingInventory(index, chains=rules.chains, drops=rules != NONE))
    planner = DynamicProgrammingPlanner(index, costs, rules)
    for arrival in (*case.arrivals, None):
        if is_too_stale(history.inventory, OUT, history.time):
            check_answer(history, planner, exact)
        if arrival is not None:
            history.arrive(arrival)


def check_answer(history: History, planner: DynamicProgrammingPlanner, exact: bool) -> None:
    answer = planner.find_plan(history.inventory, OUT, history.time)
    space = PlanSpace(history.graph, history.all_blocks, history.time)
    delivered = unpack_vector(history.inventory.delivered[OUT], history.inventory.index.pathways[OUT])
    goals = space.find_goals(OUT, delivered)
    assert (answer.plan is not None) == bool(goals)
    if answer.plan is None:
        return
    check_plan(history, answer.plan)
    assert answer.plan.cost == sum(step.cost for step in answer.plan.steps)
    assert answer.plan.cost >= find_cheapest(space, goals)
    if exact:
        narrow = PlanSpace(history.graph, history.all_blocks, history.time, history.points)
        assert answer.plan.cost <= find_cheapest_without_sharing(narrow, narrow.find_goals(OUT, delivered)) < inf
    history.run(answer.plan)


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=15)
@given(case=cases(4))
def test_an_existing_plan_is_found_under_all_rules(name: str, case: Case) -> None:
    """Without rules it costs no more than the best plan in which every use is paid for separately."""
    try:
        compare(case, RULES[name], exact=name == "none")
    except TooLarge:
        assume(False)


@settings(max_examples=30)
@given(case=cases_with_starts())
def test_dominated_blocks_hide_no_other_plan(case: Case) -> None:
    """With the long-term rule, only plans that use a dominated block for its target can be cheaper.

    Outputs have APPLY, so deltas that the consumer cannot apply are useful, and stale bases exist to start from.
    """
    index = GraphIndex(case.graph)
    history = History(case.graph, LastingInventory(index, chains=False, drops=False))
    planner = DynamicProgrammingPlanner(
        index, partial(costs, price_seed=case.price_seed), replace(NONE, long_term=True)
    )
    try:
        for arrival in (*case.arrivals, None):
            if is_too_stale(history.inventory, OUT, history.time):
                check_answer_without_dominated(history, planner, case.price_seed)
            if arrival is not None:
                history.arrive(arrival)
    except TooLarge:
        assume(False)


def check_answer_without_dominated(history: History, planner: DynamicProgrammingPlanner, price_seed: int) -> None:
    answer = planner.find_plan(history.inventory, OUT, history.time)
    if answer.plan is None:
        return
    space = PlanSpace(history.graph, history.all_blocks, history.time, history.points, price_seed)
    delivered = unpack_vector(history.inventory.delivered[OUT], history.inventory.index.pathways[OUT])
    goals, edges = exclude_dominated(space, OUT, delivered)
    assert answer.plan.cost <= find_cheapest_without_sharing(space, goals, edges)
    history.run(answer.plan)
