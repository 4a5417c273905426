"""Planners: find the cheapest plan that refreshes an output."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial

from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.bounds import ChannelLimit, list_declared_limits, propagate_limits
from tidemill.planner.expansion import Uses
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.pruning import ALL, SearchRules, relax_rules
from tidemill.planner.search import PlanSearch
from tidemill.planner.steps import CostFunction, Plan, PlanResult
from tidemill.planner.vector import PlanningClock


class PlanningScope:
    """The scope of planning for an output, computed once: channels with their limits, and the uses of their blocks."""

    def __init__(self, index: GraphIndex, output: str) -> None:
        self.declared: Mapping[str, ChannelLimit] = list_declared_limits(index, output)
        self.propagated: Mapping[str, ChannelLimit] = propagate_limits(index, output)
        self.uses: Uses = {
            key: tuple(u for u in uses if any(c in self.declared for c, _ in u.producer.writes))
            for key, uses in index.uses.items()
            if key[0] in self.declared
        }

    def build_search(
        self, inventory: BlockInventory, output: str, timeline: Timeline, costs: CostFunction, rules: SearchRules
    ) -> PlanSearch:
        limits = self.propagated if rules.propagation else self.declared
        clock = PlanningClock(timeline, inventory.index.inputs)
        return PlanSearch(inventory, output, limits, self.uses, clock, costs, rules)


@contextmanager
def _pause_gc() -> Iterator[None]:
    """Pause Python's garbage collector: the search creates many objects, no cycles, and few outlive it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class DynamicProgrammingPlanner:
    """Finds the cheapest plan by dynamic programming; if there is none, with fewer pruning rules."""

    def __init__(self, index: GraphIndex, costs: CostFunction, rules: SearchRules = ALL) -> None:
        self._costs, self._rules = costs, rules
        self._find_scope = cache(partial(PlanningScope, index))

    @_pause_gc()
    def find_plan(self, inventory: BlockInventory, output: str, timeline: Timeline) -> PlanResult:
        plan: Plan | None = None
        for fallbacks, rules in enumerate(relax_rules(self._rules)):  # noqa: B007 the last of them is the answer's
            search = self._find_scope(output).build_search(inventory, output, timeline, self._costs, rules)
            plan = search.find_plan()
            if plan is not None:
                break
        return PlanResult(plan, search.rejected_goals, fallbacks, search.generated)
