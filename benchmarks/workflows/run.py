"""A workflow in virtual time: data arrive, the planner is asked when an output is too stale, and plans take their time.

Machines are many and paid by the hour, so time and cost are the same thing: a plan of a hundred CPU hours on ten
thousand machines takes a hundredth of an hour. What a step really costs and makes is noise around what was estimated.
The noise is drawn for each step by what the step is, and a step is charged for what it really reads: with one seed,
two planners that run the same step pay the same for it, so that they differ by their decisions alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import pi, sqrt
from random import Random
from typing import TypeVar

from benchmarks.workflows.rates import sized
from benchmarks.workflows.scenario import HOUR, Feed, Scenario
from tidemill.model.time import Timeline, Version
from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.bounds import get_declared_limit
from tidemill.planner.graph import BlockNode, BlockShape, DataSize
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.planner import DynamicProgrammingPlanner, Planner, find_due_time
from tidemill.planner.steps import Plan, PlanResult, PlanStep
from tidemill.planner.vector import NEVER, Ends, PlanningClock

MACHINES = 10_000
SPREAD = 0.5 * sqrt(pi / 2)  # of a Gaussian that is half of the value off on average
LEAST = 0.1  # of what was estimated; nothing is done in no time

T = TypeVar("T")
Stopwatch = Callable[[], float]
Noise = Callable[[str], float]
"""By what factor something that is known by its name differs from its estimate."""


def gaussian(seed: int) -> Noise:
    """Noise that depends on the seed and the name alone."""
    return lambda name: max(LEAST, Random(f"{seed} {name}").gauss(1.0, SPREAD))


@dataclass(slots=True)
class Outcome:
    """What came of a simulation. Costs and lags are CPU hours."""

    cost: float = 0.0
    lags: list[tuple[Version, float]] = field(default_factory=list)  # when an output was repaired, and how late
    costs: list[tuple[Version, float]] = field(default_factory=list)  # what everything had cost by then
    scheduler_s: float = 0.0
    calls: int = 0
    unplanned: int = 0  # calls that found no plan
    fallbacks: int = 0
    generated: int = 0
    broken: int = 0  # deliveries that broke a bound on inconsistency
    ran: Counter[tuple[str, str]] = field(default_factory=Counter)  # by task and variant


class Simulation:
    """One run of a scenario."""

    def __init__(
        self, scenario: Scenario, planner: Callable[[GraphIndex], Planner], noise: Noise, stopwatch: Stopwatch
    ) -> None:
        self._layout = GraphIndex(scenario.graph)
        self._scenario, self._noise, self._stopwatch = scenario, noise, stopwatch
        self._planner = planner(self._layout)
        self._stock = BlockInventory(self._layout)
        self._versions: dict[str, list[Version]] = {name: [] for name in scenario.feeds}
        self._events: list[tuple[Version, int, Callable[[], None]]] = []
        self._order = count()
        self._busy: set[str] = set()
        self._timers: dict[str, Version] = {}
        self._now: Version = 0
        self.outcome = Outcome()

    def run(self, until: Version) -> Outcome:
        for number, (name, feed) in enumerate(self._scenario.feeds.items()):
            self._begin(name, feed, number)
        self._now = len(self._versions)
        for output in self._layout.graph.outputs:
            self._prepare(output)
        while self._events and self._events[0][0] <= until:
            self._pass()
            self._look()
        return self.outcome

    def _pass(self) -> None:
        """Let all of the next moment happen: who looks at what is due then sees all that has arrived by then."""
        self._now = self._events[0][0]
        while self._events and self._events[0][0] == self._now:
            heappop(self._events)[2]()

    def _at(self, moment: Version, happen: Callable[[], None]) -> None:
        heappush(self._events, (moment, next(self._order), happen))

    def _begin(self, channel: str, feed: Feed, number: int) -> None:
        first = number + 1
        self._versions[channel].append(first)
        self._stock.add_block(BlockNode(channel, BlockShape.BASE, None, ((first,),), sized(feed.already)))
        self._at(feed.every + feed.phase, lambda: self._arrive(channel, feed))

    def _prepare(self, output: str) -> None:
        """What was there before has been processed before, and is not measured."""
        plan = (
            DynamicProgrammingPlanner(self._layout, self._scenario.costs)
            .find_plan(self._stock, output, self._timeline)
            .plan
        )
        if plan is not None:
            self._stock.pin_blocks(plan.reads)
            self._commit(plan, [block for step in plan.steps for block in step.writes])

    def _arrive(self, channel: str, feed: Feed) -> None:
        versions = self._versions[channel]
        before = versions[-1]
        versions.append(self._now)
        block = BlockNode(channel, feed.shape, ((before,),), ((self._now,),), sized(feed.bytes))
        self._timed(lambda: self._stock.add_block(block))
        self._at(self._now + feed.every, lambda: self._arrive(channel, feed))

    @property
    def _timeline(self) -> Timeline:
        """What has arrived has arrived before now, if only just."""
        return Timeline(self._versions, self._now + 1)

    @property
    def _clock(self) -> PlanningClock:
        return PlanningClock(self._timeline, self._layout.inputs)

    def _look(self) -> None:
        """Is something too stale, or when will it be?"""
        for output in self._layout.graph.outputs:
            due = None if output in self._busy else find_due_time(self._stock, output, self._timeline)
            if due is None:
                continue
            if due <= self._timeline.now:
                self._repair(output)
            elif self._timers.get(output) != due:
                self._timers[output] = due
                self._at(due - 1, lambda: None)

    def _repair(self, output: str) -> None:
        answer = self._timed(lambda: self._planner.find_plan(self._stock, output, self._timeline))
        self._note(answer)
        if answer.plan is None:
            return  # tried again when something happens
        self._start(answer.plan)

    def _note(self, answer: PlanResult) -> None:
        outcome = self.outcome
        outcome.calls += 1
        outcome.unplanned += answer.plan is None
        outcome.fallbacks += answer.plan is not None and answer.fallbacks > 0
        outcome.generated += answer.generated

    def _start(self, plan: Plan) -> None:
        self._busy.add(plan.goal)
        self._timed(lambda: self._stock.pin_blocks(plan.reads))
        cost, made = self._run_steps(plan)
        self._at(self._now + max(1, round(cost * HOUR / MACHINES)), lambda: self._finish(plan, cost, made))

    def _run_steps(self, plan: Plan) -> tuple[float, dict[BlockNode, BlockNode]]:
        """What a plan really costs, and what it makes. A step reads what others made, not what was expected of them."""
        total = 0.0
        made: dict[BlockNode, BlockNode] = {}
        for step in plan.steps:
            reads = tuple(made.get(block, block) for block in step.reads)
            cost, sizes = self._scenario.costs(step.task, step.variant, reads)
            total += cost * self._noise(f"{step.task} {step.variant} {step.writes[0]!r}")
            for block, size in zip(step.writes, sizes, strict=True):
                made[block] = self._really_made(step, block.resize_block(size))
        return total, made

    def _finish(self, plan: Plan, cost: float, made: dict[BlockNode, BlockNode]) -> None:
        """All that a plan made becomes visible together, and its goal is handed over.

        It is paid now: at the end of a simulation, planners that make one plan of a repair or several pay alike.
        """
        self._busy.remove(plan.goal)
        self.outcome.cost += cost
        self.outcome.costs.append((self._now, self.outcome.cost))
        before = self._ends(plan.goal)
        self._timed(lambda: self._commit(plan, list(made.values())))
        self.outcome.ran.update((step.task, step.variant) for step in plan.steps)
        if plan.delivers is not None:
            self._measure(plan.goal, before)

    def _commit(self, plan: Plan, made: list[BlockNode]) -> None:
        """What was read stays pinned until all that was made of it is there: only then is it known who stands where."""
        for block in made:
            self._stock.add_block(block)
        if plan.delivers is not None:
            self._stock.deliver_block(plan.delivers)
        self._stock.unpin_blocks(plan.reads)
        touched = dict.fromkeys(b.channel for b in (*plan.reads, *made))
        self._stock.trim_channels(touched, self._clock)

    def _really_made(self, step: PlanStep, block: BlockNode) -> BlockNode:
        """What a step makes. A base that a delta was applied to is the size it is: noise would add up for ever."""
        steady = step.task == block.channel and block.shape is BlockShape.BASE
        return block if steady else block.resize_block(_times(block.size, self._noise(f"size of {block!r}")))

    def _ends(self, output: str) -> Ends:
        return self._clock.find_ends(output, self._stock.get_delivered(output))

    def _measure(self, output: str, before: Ends) -> None:
        """How long each pathway that was too stale had been so."""
        limit, after = get_declared_limit(self._layout, output), self._ends(output)
        self.outcome.broken += not limit.is_consistent(self._stock.get_delivered(output), after)
        for bound, was, now in zip(limit.staleness, before, after, strict=True):
            if bound is not None and was != NEVER and was < now and was + bound < self._now:
                self.outcome.lags.append((self._now, (self._now - was - bound) * MACHINES / HOUR))

    def _timed(self, action: Callable[[], T]) -> T:
        began = self._stopwatch()
        try:
            return action()
        finally:
            self.outcome.scheduler_s += self._stopwatch() - began


def _times(size: DataSize, factor: float) -> DataSize:
    return DataSize(size.rows * factor, size.bytes * factor)
