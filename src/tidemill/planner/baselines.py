"""Two simple planners to measure the dynamic program against. Both plan one step at a time."""

from __future__ import annotations

from random import Random

from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import Stock
from tidemill.planner.graph_index import Layout
from tidemill.planner.planner import Scopes
from tidemill.planner.search import Rules
from tidemill.planner.steps import Answer, Costs, Plan

RULES = Rules(overkill=False, long_term=False, loose_ends=False)
"""What the baselines are granted: old blocks go, chains form, bounds are propagated."""


class Greedy:
    """The cheapest step that keeps all bounds, wherever it leads."""

    def __init__(self, layout: Layout, costs: Costs) -> None:
        self._scopes, self._costs = Scopes(layout), costs

    def plan(self, stock: Stock, output: str, timeline: Timeline) -> Answer:
        search = self._scopes[output].search(stock, output, timeline, self._costs, RULES)
        plans = search.single_steps()
        chosen = self._choose(plans) if plans else None
        return Answer(chosen, search.rejected, 0, search.generated, search.pruned)

    def _choose(self, plans: list[Plan]) -> Plan:
        return min(plans, key=lambda plan: plan.cost)


class Chance(Greedy):
    """Any step that keeps all bounds."""

    def __init__(self, layout: Layout, costs: Costs, random: Random) -> None:
        super().__init__(layout, costs)
        self._random = random

    def _choose(self, plans: list[Plan]) -> Plan:
        return self._random.choice(plans)
