"""Two simple planners as baselines for the dynamic program. Both plan one step at a time."""

from __future__ import annotations

from functools import cache, partial
from heapq import heappop
from random import Random

from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.planner import PlanningScope
from tidemill.planner.pruning import SearchRules
from tidemill.planner.search import PlanSearch
from tidemill.planner.steps import CostFunction, Plan, PlanResult
from tidemill.planner.vector import PlanningClock

RULES = SearchRules(overkill=False, long_term=False, loose_ends=False)
"""Rules of the baselines: chains are read as one block, bounds are propagated."""


class SingleStepSearch(PlanSearch):
    """Looks one step ahead."""

    def list_single_steps(self) -> list[Plan]:
        """List all plans of one step from existing blocks."""
        delivered = self._load_existing()
        if delivered is not None:
            return [self._build_plan(delivered)]
        while self._queue and self._queue[0][2].is_existing:  # chains are free, like existing blocks
            self._expand_candidate(heappop(self._queue)[2])
        return [self._build_plan(candidate) for _, _, candidate in sorted(self._queue, key=lambda entry: entry[:2])]


class GreedyPlanner:
    """Takes the cheapest step that satisfies all bounds, even if it does not lead to the goal."""

    def __init__(self, index: GraphIndex, costs: CostFunction) -> None:
        self._costs, self._find_scope = costs, cache(partial(PlanningScope, index))

    def find_plan(self, inventory: BlockInventory, output: str, timeline: Timeline) -> PlanResult:
        scope, clock = self._find_scope(output), PlanningClock(timeline, inventory.index.inputs)
        search = SingleStepSearch(inventory, output, scope.propagated, scope.uses, clock, self._costs, RULES)
        plans = search.list_single_steps()
        chosen = self._choose_plan(plans) if plans else None
        return PlanResult(chosen, search.rejected_goals, 0, search.generated)

    def _choose_plan(self, plans: list[Plan]) -> Plan:
        return min(plans, key=lambda plan: plan.cost)


class RandomPlanner(GreedyPlanner):
    """Takes a random step that satisfies all bounds."""

    def __init__(self, index: GraphIndex, costs: CostFunction, random: Random) -> None:
        super().__init__(index, costs)
        self._random = random

    def _choose_plan(self, plans: list[Plan]) -> Plan:
        return self._random.choice(plans)
