"""What is the cheapest way to make an output fresh again? Planners answer that, and nothing else."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import Stock
from tidemill.planner.bounds import Limit, declared, own, propagated
from tidemill.planner.expansion import Uses
from tidemill.planner.graph_index import Layout
from tidemill.planner.search import ALL, Rules, Search, ladder
from tidemill.planner.steps import Answer, Costs, Plan
from tidemill.planner.vector import Clock


class Planner(Protocol):
    """Plans for one output at a time.

    The timeline fixes the moment and the input versions for the whole plan; the moment is later than all of them.
    """

    def plan(self, stock: Stock, output: str, timeline: Timeline) -> Answer: ...


class Scope:
    """What planning for an output looks at, worked out once: channels with their limits, and who takes their blocks."""

    def __init__(self, layout: Layout, output: str) -> None:
        self.declared: Mapping[str, Limit] = declared(layout, output)
        self.propagated: Mapping[str, Limit] = propagated(layout, output)
        self.uses: Uses = {
            key: tuple(u for u in uses if any(c in self.declared for c, _ in u.maker.writes))
            for key, uses in layout.uses.items()
            if key[0] in self.declared
        }

    def search(self, stock: Stock, output: str, timeline: Timeline, costs: Costs, rules: Rules) -> Search:
        limits = self.propagated if rules.propagation else self.declared
        return Search(stock, output, limits, self.uses, Clock(timeline, stock.layout.inputs), costs, rules)


class Scopes:
    """The scopes of a layout's outputs."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[str, Scope] = {}

    def __getitem__(self, output: str) -> Scope:
        if output not in self._known:
            self._known[output] = Scope(self._layout, output)
        return self._known[output]


class DynamicProgram:
    """The cheapest plan by dynamic programming; with fewer rules where there is none with all of them."""

    def __init__(self, layout: Layout, costs: Costs, rules: Rules = ALL) -> None:
        self._scopes, self._costs, self._rules = Scopes(layout), costs, rules

    def plan(self, stock: Stock, output: str, timeline: Timeline) -> Answer:
        with _uncollected():
            return self._searched(stock, output, timeline)

    def _searched(self, stock: Stock, output: str, timeline: Timeline) -> Answer:
        pruned: Counter[str] = Counter()
        plan: Plan | None = None
        for fallbacks, rules in enumerate(ladder(self._rules)):  # noqa: B007 the last of them is the answer's
            search = self._scopes[output].search(stock, output, timeline, self._costs, rules)
            plan = search.plan()
            pruned.update(search.pruned)
            if plan is not None:
                break
        return Answer(plan, search.rejected, fallbacks, search.generated, pruned)


@contextmanager
def _uncollected() -> Iterator[None]:
    """No looking for garbage until the search is gone: it makes many objects, no cycles, and few outlive it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def too_stale(stock: Stock, output: str, timeline: Timeline) -> bool:
    """Is a bound on an output's staleness violated?"""
    at = due_at(stock, output, timeline)
    return at is not None and at <= timeline.now


def due_at(stock: Stock, output: str, timeline: Timeline) -> int | None:
    """The moment from which on an output is too stale if nothing is done; None if that is not in sight."""
    layout = stock.layout
    delivered = stock.delivered(output)
    if not any(delivered):
        return timeline.now
    return own(layout, output).passed_at(Clock(timeline, layout.inputs).ends(output, delivered), timeline.now)
