"""How a declared workflow stands, and what would be the best to do: the planner asked of a live system.

Of a channel there is its content at its head, and for whoever goes on from some point what changed since. Everything
that is planned leads to the heads as they are now; what arrives meanwhile waits for the next plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.program import Way
from tidemill.model.freshness_target import EVERY, Promise
from tidemill.model.provenance import Provenance
from tidemill.model.time import Timeline, Version
from tidemill.planner.block_inventory import Stock
from tidemill.planner.bounds import apart, own
from tidemill.planner.cost import Learnt, Looked, looked_at, seconds
from tidemill.planner.graph import APPLY, EMPTY, Block, Graph, Shape, Size
from tidemill.planner.graph_index import Layout
from tidemill.planner.planner import DynamicProgram
from tidemill.planner.refresh_mode import PRIORS, WORTH, afterwards, prior
from tidemill.planner.steps import Answer, Estimate, Step
from tidemill.planner.vector import NEVER, Clock, packed
from tidemill.planner.workflow_graph import bound


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a channel: what it reflects, and how much is there, or has changed since."""

    reached: Provenance
    size: Size


@dataclass(frozen=True, slots=True)
class Standing:
    """How a workflow stands at a moment that is later than all that has arrived."""

    heads: Mapping[str, Point]  # of every channel
    cursors: Mapping[tuple[str, str], Point]  # by task and channel, where a task goes on, and what changed since
    arrivals: Mapping[str, Sequence[Version]]  # of every input, ascending
    now: Version

    @property
    def timeline(self) -> Timeline:
        return Timeline(self.arrivals, self.now)


def stock_of(layout: Layout, standing: Standing) -> Stock:
    stock = Stock(layout)
    for channel, head in standing.heads.items():
        pathways = layout.pathways[channel]
        target = packed(head.reached, pathways)
        points = [p for (_, c), p in standing.cursors.items() if c == channel]
        deltas = {packed(p.reached, pathways): p.size for p in points}
        shape = _changing(layout, channel)
        stock.add(Block(channel, Shape.BASE, None, target, head.size))
        for source, size in deltas.items():
            stock.add(Block(channel, shape, source, source, EMPTY))  # to leave the channel where it stands
            if source != target:
                stock.add(Block(channel, shape, source, target, size))
    for output in layout.graph.outputs:
        head = standing.heads[output]
        stock.deliver(Block(output, Shape.BASE, None, packed(head.reached, layout.pathways[output])))
    return stock


def _changing(layout: Layout, channel: str) -> Shape:
    """The shape of a channel's changes: as its task makes them, or what is new enough would not outdo what is newer."""
    task = layout.writer.get(channel)
    made = () if task is None else {v.makes[task.writes.index(channel)] for v in task.variants}
    return Shape.MONOTONE if Shape.MONOTONE in made else Shape.STRONG


class LearntCosts:
    """What steps cost, as runs have taught."""

    def __init__(self, graph: Graph, standing: Standing, learnt: Mapping[tuple[str, str], Learnt]) -> None:
        self._tasks = {t.name: t for t in graph.tasks}
        self._contents = {channel: head.size for channel, head in standing.heads.items()}
        self._learnt = learnt

    def __call__(self, task: str, variant: str, reads: Sequence[Block], /) -> Estimate:
        if variant == APPLY.name:  # readers apply what they read
            return Estimate(0.0, (sum((b.size for b in reads), EMPTY),))
        known = self._known(task)
        moved = [b for b in reads if b.source is not None and b.source != b.target]
        if not any(b.source is not None for b in reads):
            extra = WORTH if variant == Way.RECOMPUTE else 0.0
            return self._estimate(known, variant, looked_at(reads), extra)
        contents = sum((self._contents[c] for c in self._tasks[task].reads), EMPTY)
        looked = replace(looked_at(moved), content=contents.rows)
        extra = afterwards(known[Way.BATCH], looked, contents.bytes) if variant == Way.INCREMENTAL else 0.0
        name = incremental(variant, self._tasks[task].reads, [b.channel for b in moved])
        return self._estimate(known, name, looked, extra)

    def _estimate(self, known: Mapping[str, Learnt], variant: str, looked: Looked, extra: float) -> Estimate:
        sizes = known[variant].estimate(looked).sizes
        return Estimate(seconds(variant, known, looked) + extra, sizes)

    def _known(self, task: str) -> dict[str, Learnt]:
        writes = len(self._tasks[task].writes)
        parts = (f"{Way.INCREMENTAL}:{c}" for c in self._tasks[task].reads)
        names = [*PRIORS, *parts, *(v.name for v in self._tasks[task].variants)]
        found = {str(name): self._learnt.get((task, str(name))) or prior(str(name), writes) for name in names}
        return {n: k if len(k.yields) == writes else prior(n, writes) for n, k in found.items()}


def incremental(variant: str, reads: Sequence[str], moved: Sequence[str]) -> str:
    """The variant of a task that takes in what changed on these channels: one of several has a variant of its own."""
    single = variant == Way.INCREMENTAL and len(reads) > 1 and len(moved) == 1
    return f"{Way.INCREMENTAL}:{moved[0]}" if single else variant


@dataclass(frozen=True, slots=True)
class Decision:
    """What would be done for a channel now, and what each way to do it looks like."""

    goal: str
    due: Version | None  # from when on it is too stale if nothing is done
    answer: Answer | None  # None: nothing needs to be done
    again: Version | None  # from when on it is too stale if no more than that is done

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is run; what readers convert as they read is no step of its own."""
        plan = None if self.answer is None else self.answer.plan
        return () if plan is None else tuple(s for s in plan.steps if s.variant != APPLY.name)


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that a decision depends on."""

    graph: Graph
    standing: Standing
    learnt: Mapping[tuple[str, str], Learnt]

    def decide(self, goal: str, promise: Promise, *, lead: float = 0.0, fresh: bool = False) -> Decision:
        """What to do for a promised channel; `fresh`: to reflect all that has arrived, whatever is promised."""
        wanted = replace(promise, lag={EVERY: 0.0}) if fresh else promise
        graph = self._with(goal, wanted, lead)
        layout = Layout(graph)
        stock = stock_of(layout, self.standing)
        due = _due(layout, stock, goal, self.standing.timeline)
        if due is None or due > self.standing.now:
            return Decision(goal, due, None, due)
        costs = LearntCosts(graph, self.standing, self.learnt)
        answer = DynamicProgram(layout, costs).plan(stock, goal, self.standing.timeline)
        if answer.plan is not None and answer.plan.delivers is not None:
            stock.deliver(answer.plan.delivers)
        return Decision(goal, due, answer, _due(layout, stock, goal, self.standing.timeline))

    def _with(self, goal: str, promise: Promise, lead: float) -> Graph:
        pathways = Layout(self.graph).pathways
        changed = (bound(c, promise, pathways[goal], lead) if c.name == goal else c for c in self.graph.channels)
        return replace(self.graph, channels=tuple(changed))


def _due(layout: Layout, stock: Stock, goal: str, timeline: Timeline) -> Version | None:
    """When a channel is too stale, or the first of what it derives from has come; None if that is not in sight."""
    ends = Clock(timeline, layout.inputs).ends(goal, stock.delivered(goal))
    missing = NEVER in ends and any(
        timeline.versions.get(source) for source, e in zip(layout.inputs[goal], ends, strict=True) if e == NEVER
    )
    return timeline.now if missing else own(layout, goal).passed_at(ends, timeline.now)


@dataclass(frozen=True, slots=True)
class Kept:
    """How a promise is kept by one channel at a moment."""

    stale: Mapping[tuple[str, ...], float]  # seconds, by pathway
    bounds: Mapping[tuple[str, ...], float]  # of those that are bounded
    apart: float | None  # seconds between what it reflects, below zero if it was there together; None: nothing is
    consistency: float | None

    @property
    def late(self) -> bool:
        return any(self.stale.get(p, 0.0) > bound for p, bound in self.bounds.items())

    @property
    def inconsistent(self) -> bool:
        return self.consistency is not None and self.apart is not None and self.apart >= self.consistency


def kept(promise: Promise, reached: Provenance, timeline: Timeline, declared: Iterable[tuple[str, ...]] = ()) -> Kept:
    """`declared` are the pathways by which inputs come to the channel, whether it reflects something of them or not."""
    pathways = tuple(reached.pathways)
    ends = {p: reached.end_of(p, timeline) for p in pathways}
    stale = {p: (timeline.now - e) / 1e6 for p, e in ends.items() if e is not None}
    unread = {p: timeline.versions.get(p[0], ()) for p in declared if pathways and p not in reached.pathways}
    stale |= {p: (timeline.now - versions[0]) / 1e6 for p, versions in unread.items() if versions}
    bounds = {p: lag for p in stale.keys() | set(pathways) if (lag := promise.lag_of(p)) is not None}
    vector = packed(reached, pathways)
    far = apart(vector, tuple(NEVER if e is None else e for e in ends.values())) if pathways else None
    return Kept(stale, bounds, None if far is None else far / 1e6, promise.consistency)
