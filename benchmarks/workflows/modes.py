"""Variants of a scenario: synchronous or batch processing, and other planners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Protocol

from benchmarks.workflows.baselines import GreedyPlanner, RandomPlanner
from benchmarks.workflows.scenario import Scenario
from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.graph import BlockShape, ChannelBounds, ChannelNode, PlanningGraph
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.planner import DynamicProgrammingPlanner
from tidemill.planner.steps import PlanResult

ASYNC_INCR, SYNC_INCR, ASYNC_BATCH, SYNC_BATCH = "Async/Incr", "Sync/Incr", "Async/Batch", "Sync/Batch"


def make_synchronous(scenario: Scenario) -> Scenario:
    """The scenario restricted to consistent blocks."""
    derived = {name for task in scenario.graph.tasks for name in task.writes}
    channels = tuple(_require_consistency(c) if c.name in derived else c for c in scenario.graph.channels)
    return replace(scenario, graph=PlanningGraph(channels, scenario.graph.tasks))


def make_batch(scenario: Scenario) -> Scenario:
    """The scenario restricted to bases. Arrivals keep their shape and are first merged into a new base of the input."""
    only = frozenset([BlockShape.BASE])
    channels = tuple(
        replace(c, accepts=c.accepts & only, conversions=tuple(k for k in c.conversions if k.target_shape in only))
        for c in scenario.graph.channels
    )
    tasks = tuple(
        replace(
            t, variants=tuple(v for v in t.variants if {*v.output_shapes, *(k.shape for k in v.requirements)} == only)
        )
        for t in scenario.graph.tasks
    )
    return replace(scenario, graph=PlanningGraph(channels, tasks))


def _require_consistency(channel: ChannelNode) -> ChannelNode:
    return replace(channel, bounds=ChannelBounds(channel.bounds.staleness, inconsistency=0))


MODES: Mapping[str, Callable[[Scenario], Scenario]] = {
    ASYNC_INCR: lambda scenario: scenario,
    SYNC_INCR: make_synchronous,
    ASYNC_BATCH: make_batch,
    SYNC_BATCH: lambda scenario: make_synchronous(make_batch(scenario)),
}
"""The rows of the paper's table 5."""


class Planner(Protocol):
    """Plans for one output at a time.

    The timeline fixes the time and the input versions for the whole plan; the time is later than all versions.
    """

    def find_plan(self, inventory: BlockInventory, output: str, timeline: Timeline) -> PlanResult: ...


PlannerFactory = Callable[[Scenario, GraphIndex, Random], Planner]

PLANNERS: Mapping[str, PlannerFactory] = {
    "DP": lambda scenario, index, _: DynamicProgrammingPlanner(index, scenario.costs),
    "GREEDY": lambda scenario, index, _: GreedyPlanner(index, scenario.costs),
    "RANDOM": lambda scenario, index, random: RandomPlanner(index, scenario.costs, random),
}
"""The rows of the paper's table 6."""
