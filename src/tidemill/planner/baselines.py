"""Two simple planners as baselines for the dynamic program. Both plan one step at a time."""

from __future__ import annotations

from random import Random

from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.planner import ScopeCache
from tidemill.planner.search_rules import SearchRules
from tidemill.planner.steps import CostFunction, Plan, PlanResult

RULES = SearchRules(overkill=False, long_term=False, loose_ends=False)
"""Rules of the baselines: old blocks are dropped, deltas are chained, bounds are propagated."""


class GreedyPlanner:
    """Takes the cheapest step that satisfies all bounds, even if it does not lead to the goal."""

    def __init__(self, index: GraphIndex, costs: CostFunction) -> None:
        self._scopes, self._costs = ScopeCache(index), costs

    def find_plan(self, inventory: BlockInventory, output: str, timeline: Timeline) -> PlanResult:
        search = self._scopes[output].build_search(inventory, output, timeline, self._costs, RULES)
        plans = search.list_single_steps()
        chosen = self._choose_plan(plans) if plans else None
        return PlanResult(chosen, search.rejected_goals, 0, search.generated, search.pruned_counts)

    def _choose_plan(self, plans: list[Plan]) -> Plan:
        return min(plans, key=lambda plan: plan.cost)


class RandomPlanner(GreedyPlanner):
    """Takes a random step that satisfies all bounds."""

    def __init__(self, index: GraphIndex, costs: CostFunction, random: Random) -> None:
        super().__init__(index, costs)
        self._random = random

    def _choose_plan(self, plans: list[Plan]) -> Plan:
        return self._random.choice(plans)
