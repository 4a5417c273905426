"""The planner against all plans there are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf

import pytest
from hypothesis import assume, given, settings
from tests.planner.exhaustive import (
    TooLarge,
    World,
    cheapest,
    cheapest_if_each_use_is_paid,
    goes_forward,
    holds,
    is_legal,
    without_outdone,
)
from tests.planner.worlds import Case, History, cases, cases_with_starts, costs

from tidemill.model.provenance import apply_delta
from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.planner import DynamicProgrammingPlanner, is_too_stale
from tidemill.planner.search_rules import ALL, NONE, SearchRules
from tidemill.planner.steps import Plan
from tidemill.planner.vector import unpack_vector

OUT = "out"
RULES = {"all": ALL, "none": NONE} | {
    f"without {name}": replace(ALL, **{name: False}) for name in ALL.__dataclass_fields__
}


def check_promises(history: History, plan: Plan) -> None:
    """What is delivered keeps every bound, starts where the consumer is, and goes forward; steps read what is there."""
    block, layout = plan.delivers, history.stock.index
    assert block is not None
    pathways = layout.pathways[OUT]
    has, target = unpack_vector(history.stock.get_delivered(OUT), pathways), unpack_vector(block.target, pathways)
    if block.source is not None:
        source = unpack_vector(block.source, pathways)
        assert is_legal(has, source, target)
        target = apply_delta(has, source, target)
    assert holds(layout.channels[OUT], target, history.time)
    assert goes_forward(has, target, history.time)
    have = set(history.everything)
    for step in plan.steps:
        for read in step.reads:
            assert read in have or read.source is not None, f"{read} is neither there nor a chain"
        have.update(step.writes)
    assert block in have or block.source is not None


def compare(case: Case, rules: SearchRules, *, exact: bool) -> None:
    """Live through a history and compare each plan with all there are."""
    layout = GraphIndex(case.graph)
    history = History(case.graph, BlockInventory(layout, rules))
    planner = DynamicProgrammingPlanner(layout, costs, rules)
    for arrival in (*case.arrivals, None):
        if is_too_stale(history.stock, OUT, history.time):
            look(history, planner, exact)
        if arrival is not None:
            history.arrive(arrival)


def look(history: History, planner: DynamicProgrammingPlanner, exact: bool) -> None:
    answer = planner.find_plan(history.stock, OUT, history.time)
    world = World(history.graph, history.everything, history.time)
    has = unpack_vector(history.stock.get_delivered(OUT), history.stock.index.pathways[OUT])
    goals = world.accepted(OUT, has)
    assert (answer.plan is not None) == bool(goals)
    if answer.plan is None:
        return
    check_promises(history, answer.plan)
    assert answer.plan.cost == sum(step.cost for step in answer.plan.steps)
    assert answer.plan.cost >= cheapest(world, goals)
    if exact:
        narrow = World(history.graph, history.everything, history.time, history.points)
        assert answer.plan.cost <= cheapest_if_each_use_is_paid(narrow, narrow.accepted(OUT, has)) < inf
    history.run(answer.plan)


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=30)
@given(case=cases(4))
def test_there_is_a_plan_whenever_there_is_one_whatever_the_rules(name: str, case: Case) -> None:
    """And without rules it costs no more than the best plan in which every use is paid for."""
    try:
        compare(case, RULES[name], exact=name == "none")
    except TooLarge:
        assume(False)


@settings(max_examples=60)
@given(case=cases_with_starts())
def test_what_is_outdone_hides_nothing_else(case: Case) -> None:
    """With the long-term provision, no plan is cheaper but for those that take something outdone for what it leads to.

    Outputs carry APPLY, so deltas that the consumer cannot apply are of use; and stale bases are there to start from.
    """
    layout = GraphIndex(case.graph)
    history = History(case.graph, BlockInventory(layout, NONE))
    planner = DynamicProgrammingPlanner(layout, partial(costs, market=case.market), replace(NONE, long_term=True))
    try:
        for arrival in (*case.arrivals, None):
            if is_too_stale(history.stock, OUT, history.time):
                look_without_outdone(history, planner, case.market)
            if arrival is not None:
                history.arrive(arrival)
    except TooLarge:
        assume(False)


def look_without_outdone(history: History, planner: DynamicProgrammingPlanner, market: int) -> None:
    answer = planner.find_plan(history.stock, OUT, history.time)
    if answer.plan is None:
        return
    world = World(history.graph, history.everything, history.time, history.points, market)
    has = unpack_vector(history.stock.get_delivered(OUT), history.stock.index.pathways[OUT])
    goals, edges = without_outdone(world, OUT, has)
    assert answer.plan.cost <= cheapest_if_each_use_is_paid(world, goals, edges)
    history.run(answer.plan)
