"""Simulation of a workflow in virtual time: data arrive, stale outputs are planned, and plans take time to execute.

Machines are many and paid by the hour, so time and cost are equivalent: a plan of a hundred CPU hours on ten thousand
machines takes a hundredth of an hour. Actual costs and sizes are noise around the estimates. The noise of a step is a
function of the seed and the step, and a step is charged for its actual reads: with one seed, two planners that run the
same step pay the same for it, so that they differ by their decisions alone.
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

from benchmarks.workflows.inventory import LastingInventory, find_due_time
from benchmarks.workflows.modes import Planner
from benchmarks.workflows.rates import to_size
from benchmarks.workflows.scenario import HOUR, Feed, Scenario
from tidemill.model.time import Timeline, Version
from tidemill.planner.bounds import get_declared_limit
from tidemill.planner.graph import BlockNode, BlockShape, DataSize
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.planner import DynamicProgrammingPlanner
from tidemill.planner.steps import Plan, PlanResult, PlanStep
from tidemill.planner.vector import NEVER, Ends, PlanningClock

MACHINES = 10_000
SPREAD = 0.5 * sqrt(pi / 2)  # of a Gaussian with a mean deviation of half the value
MIN_FACTOR = 0.1  # of the estimate; no step takes no time

T = TypeVar("T")
Stopwatch = Callable[[], float]
Noise = Callable[[str], float]
"""The factor between the actual and the estimated value, by name."""


def create_noise(seed: int) -> Noise:
    """Noise that depends on the seed and the name only."""
    return lambda name: max(MIN_FACTOR, Random(f"{seed} {name}").gauss(1.0, SPREAD))


@dataclass(slots=True)
class Outcome:
    """Result of a simulation. Costs and lags are CPU hours."""

    cost: float = 0.0
    lags: list[tuple[Version, float]] = field(default_factory=list)  # time of each refresh of an output, and its lag
    costs: list[tuple[Version, float]] = field(default_factory=list)  # time and total cost
    scheduler_s: float = 0.0
    calls: int = 0
    unplanned: int = 0  # calls without a plan
    fallbacks: int = 0
    generated: int = 0
    inconsistent: int = 0  # deliveries that exceed a bound on inconsistency
    runs_by_variant: Counter[tuple[str, str]] = field(default_factory=Counter)  # by task and variant


class Simulation:
    """One run of a scenario."""

    def __init__(
        self, scenario: Scenario, planner: Callable[[GraphIndex], Planner], noise: Noise, stopwatch: Stopwatch
    ) -> None:
        self._index = GraphIndex(scenario.graph)
        self._scenario, self._noise, self._stopwatch = scenario, noise, stopwatch
        self._planner = planner(self._index)
        self._inventory = LastingInventory(self._index)
        self._versions: dict[str, list[Version]] = {name: [] for name in scenario.feeds}
        self._events: list[tuple[Version, int, Callable[[], None]]] = []
        self._order = count()
        self._busy: set[str] = set()
        self._timers: dict[str, Version] = {}
        self._now: Version = 0
        self.outcome = Outcome()

    def run(self, until: Version) -> Outcome:
        for number, (name, feed) in enumerate(self._scenario.feeds.items()):
            self._start_feed(name, feed, number)
        self._now = len(self._versions)
        for output in self._index.graph.outputs:
            self._process_initial_data(output)
        while self._events and self._events[0][0] <= until:
            self._run_next_events()
            self._check_outputs()
        return self.outcome

    def _run_next_events(self) -> None:
        """Run all events of the next time, so that the following check of due outputs sees all their arrivals."""
        self._now = self._events[0][0]
        while self._events and self._events[0][0] == self._now:
            heappop(self._events)[2]()

    def _schedule_event(self, time: Version, action: Callable[[], None]) -> None:
        heappush(self._events, (time, next(self._order), action))

    def _start_feed(self, channel: str, feed: Feed, number: int) -> None:
        first = number + 1
        self._versions[channel].append(first)
        self._inventory.add_block(BlockNode(channel, BlockShape.BASE, None, ((first,),), to_size(feed.initial_bytes)))
        self._schedule_event(feed.every + feed.phase, lambda: self._add_arrival(channel, feed))

    def _process_initial_data(self, output: str) -> None:
        """Process the initial data; this is not measured."""
        plan = (
            DynamicProgrammingPlanner(self._index, self._scenario.costs)
            .find_plan(self._inventory, output, self._timeline)
            .plan
        )
        if plan is not None:
            self._inventory.pin_blocks(_find_reads(plan))
            self._commit_blocks(plan, [block for step in plan.steps for block in step.writes])

    def _add_arrival(self, channel: str, feed: Feed) -> None:
        versions = self._versions[channel]
        before = versions[-1]
        versions.append(self._now)
        block = BlockNode(channel, feed.shape, ((before,),), ((self._now,),), to_size(feed.bytes))
        self._measure_time(lambda: self._inventory.add_block(block))
        self._schedule_event(self._now + feed.every, lambda: self._add_arrival(channel, feed))

    @property
    def _timeline(self) -> Timeline:
        """All arrivals, with `now` just after the newest one."""
        return Timeline(self._versions, self._now + 1)

    @property
    def _clock(self) -> PlanningClock:
        return PlanningClock(self._timeline, self._index.inputs)

    def _check_outputs(self) -> None:
        """Refresh outputs that are too stale, and set timers for the others."""
        for output in self._index.graph.outputs:
            due = None if output in self._busy else find_due_time(self._inventory, output, self._timeline)
            if due is None:
                continue
            if due <= self._timeline.now:
                self._refresh_output(output)
            elif self._timers.get(output) != due:
                self._timers[output] = due
                self._schedule_event(due - 1, lambda: None)

    def _refresh_output(self, output: str) -> None:
        result = self._measure_time(lambda: self._planner.find_plan(self._inventory, output, self._timeline))
        self._record_call(result)
        if result.plan is None:
            return  # retried after the next event
        self._start_plan(result.plan)

    def _record_call(self, result: PlanResult) -> None:
        outcome = self.outcome
        outcome.calls += 1
        outcome.unplanned += result.plan is None
        outcome.fallbacks += result.plan is not None and result.fallbacks > 0
        outcome.generated += result.generated

    def _start_plan(self, plan: Plan) -> None:
        self._busy.add(plan.goal)
        self._measure_time(lambda: self._inventory.pin_blocks(_find_reads(plan)))
        cost, blocks = self._run_steps(plan)
        self._schedule_event(
            self._now + max(1, round(cost * HOUR / MACHINES)), lambda: self._finish_plan(plan, cost, blocks)
        )

    def _run_steps(self, plan: Plan) -> tuple[float, dict[BlockNode, BlockNode]]:
        """The actual cost and blocks of a plan. A step reads the actual, not the estimated blocks of other steps."""
        total = 0.0
        blocks: dict[BlockNode, BlockNode] = {}
        for step in plan.steps:
            reads = tuple(blocks.get(block, block) for block in step.reads)
            cost, sizes = self._scenario.costs(step.task, step.variant, reads)
            total += cost * self._noise(f"{step.task} {step.variant} {step.writes[0]!r}")
            for block, size in zip(step.writes, sizes, strict=True):
                blocks[block] = self._draw_block(step, _resize_block(block, size))
        return total, blocks

    def _finish_plan(self, plan: Plan, cost: float, blocks: dict[BlockNode, BlockNode]) -> None:
        """Commit all blocks of a plan at once, and deliver its goal.

        The cost is added now, so that at the end of a simulation one plan for a refresh or several cost the same.
        """
        self._busy.remove(plan.goal)
        self.outcome.cost += cost
        self.outcome.costs.append((self._now, self.outcome.cost))
        before = self._find_ends(plan.goal)
        self._measure_time(lambda: self._commit_blocks(plan, list(blocks.values())))
        self.outcome.runs_by_variant.update((step.task, step.variant) for step in plan.steps)
        if plan.delivers is not None:
            self._measure_lag(plan.goal, before)

    def _commit_blocks(self, plan: Plan, blocks: list[BlockNode]) -> None:
        """Commit blocks. Inputs stay pinned until all outputs are added and the channels' versions are final."""
        for block in blocks:
            self._inventory.add_block(block)
        if plan.delivers is not None:
            self._inventory.deliver_block(plan.delivers)
        reads = _find_reads(plan)
        self._inventory.unpin_blocks(reads)
        touched = dict.fromkeys(b.channel for b in (*reads, *blocks))
        self._inventory.trim_channels(touched, self._clock)

    def _draw_block(self, step: PlanStep, block: BlockNode) -> BlockNode:
        """The actual block of a step. A base after applying a delta has no noise, which would accumulate."""
        is_compaction = step.task == block.channel and block.shape is BlockShape.BASE
        return (
            block if is_compaction else _resize_block(block, _scale_size(block.size, self._noise(f"size of {block!r}")))
        )

    def _find_ends(self, output: str) -> Ends:
        return self._clock.find_ends(output, self._inventory.delivered[output])

    def _measure_lag(self, output: str, before: Ends) -> None:
        """Record for how long each pathway was too stale."""
        limit, after = get_declared_limit(self._index, output), self._find_ends(output)
        self.outcome.inconsistent += not limit.is_consistent(self._inventory.delivered[output], after)
        for bound, old, new in zip(limit.staleness, before, after, strict=True):
            if bound is not None and old != NEVER and old < new and old + bound < self._now:
                self.outcome.lags.append((self._now, (self._now - old - bound) * MACHINES / HOUR))

    def _measure_time(self, action: Callable[[], T]) -> T:
        began = self._stopwatch()
        try:
            return action()
        finally:
            self.outcome.scheduler_s += self._stopwatch() - began


def _find_reads(plan: Plan) -> tuple[BlockNode, ...]:
    """The blocks that must exist before the first step."""
    written = {b for step in plan.steps for b in step.writes}
    return tuple(dict.fromkeys(b for step in plan.steps for b in step.reads if b not in written))


def _resize_block(block: BlockNode, size: DataSize) -> BlockNode:
    return BlockNode(block.channel, block.shape, block.source, block.target, size)


def _scale_size(size: DataSize, factor: float) -> DataSize:
    return DataSize(size.rows * factor, size.bytes * factor)
