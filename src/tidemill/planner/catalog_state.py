"""How a declared workflow stands, and what would be the best to do: the planner asked of a live system.

Of a channel there is its content at its head, and for whoever goes on from some point what changed since. Everything
that is planned leads to the heads as they are now; what arrives meanwhile waits for the next plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.program import RefreshMode
from tidemill.model.freshness_target import EVERY, FreshnessTarget
from tidemill.model.provenance import Provenance
from tidemill.model.time import Timeline, Version
from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.bounds import compute_inconsistency, get_declared_limit
from tidemill.planner.cost import CostModel, ScanVolume, estimate_seconds, measure_reads
from tidemill.planner.graph import APPLY, EMPTY, BlockNode, BlockShape, DataSize, PlanningGraph
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.planner import DynamicProgrammingPlanner
from tidemill.planner.refresh_mode import PRIORS, WORTH, build_prior, estimate_compaction
from tidemill.planner.steps import CostEstimate, PlanResult, PlanStep
from tidemill.planner.vector import NEVER, PlanningClock, pack_provenance
from tidemill.planner.workflow_graph import apply_target


@dataclass(frozen=True, slots=True)
class ChannelPoint:
    """A point of a channel: what it reflects, and how much is there, or has changed since."""

    reached: Provenance
    size: DataSize


@dataclass(frozen=True, slots=True)
class CatalogState:
    """How a workflow stands at a moment that is later than all that has arrived."""

    heads: Mapping[str, ChannelPoint]  # of every channel
    cursors: Mapping[tuple[str, str], ChannelPoint]  # by task and channel, where a task goes on, and what changed since
    arrivals: Mapping[str, Sequence[Version]]  # of every input, ascending
    now: Version

    @property
    def timeline(self) -> Timeline:
        return Timeline(self.arrivals, self.now)


def build_inventory(layout: GraphIndex, standing: CatalogState) -> BlockInventory:
    stock = BlockInventory(layout)
    for channel, head in standing.heads.items():
        pathways = layout.pathways[channel]
        target = pack_provenance(head.reached, pathways)
        points = [p for (_, c), p in standing.cursors.items() if c == channel]
        deltas = {pack_provenance(p.reached, pathways): p.size for p in points}
        shape = _find_change_shape(layout, channel)
        stock.add_block(BlockNode(channel, BlockShape.BASE, None, target, head.size))
        for source, size in deltas.items():
            stock.add_block(BlockNode(channel, shape, source, source, EMPTY))  # to leave the channel where it stands
            if source != target:
                stock.add_block(BlockNode(channel, shape, source, target, size))
    for output in layout.graph.outputs:
        head = standing.heads[output]
        stock.deliver_block(
            BlockNode(output, BlockShape.BASE, None, pack_provenance(head.reached, layout.pathways[output]))
        )
    return stock


def _find_change_shape(layout: GraphIndex, channel: str) -> BlockShape:
    """The shape of a channel's changes: as its task makes them, or what is new enough would not outdo what is newer."""
    task = layout.writer.get(channel)
    made = () if task is None else {v.makes[task.writes.index(channel)] for v in task.variants}
    return BlockShape.MONOTONE if BlockShape.MONOTONE in made else BlockShape.STRONG


class LearntCosts:
    """What steps cost, as runs have taught."""

    def __init__(
        self, graph: PlanningGraph, standing: CatalogState, learnt: Mapping[tuple[str, str], CostModel]
    ) -> None:
        self._tasks = {t.name: t for t in graph.tasks}
        self._contents = {channel: head.size for channel, head in standing.heads.items()}
        self._learnt = learnt

    def __call__(self, task: str, variant: str, reads: Sequence[BlockNode], /) -> CostEstimate:
        if variant == APPLY.name:  # readers apply what they read
            return CostEstimate(0.0, (sum((b.size for b in reads), EMPTY),))
        known = self._find_cost_models(task)
        moved = [b for b in reads if b.source is not None and b.source != b.target]
        if not any(b.source is not None for b in reads):
            extra = WORTH if variant == RefreshMode.RECOMPUTE else 0.0
            return self._estimate_step(known, variant, measure_reads(reads), extra)
        contents = sum((self._contents[c] for c in self._tasks[task].reads), EMPTY)
        looked = replace(measure_reads(moved), content=contents.rows)
        extra = (
            estimate_compaction(known[RefreshMode.BATCH], looked, contents.bytes)
            if variant == RefreshMode.INCREMENTAL
            else 0.0
        )
        name = resolve_variant(variant, self._tasks[task].reads, [b.channel for b in moved])
        return self._estimate_step(known, name, looked, extra)

    def _estimate_step(
        self, known: Mapping[str, CostModel], variant: str, looked: ScanVolume, extra: float
    ) -> CostEstimate:
        sizes = known[variant].estimate_run(looked).sizes
        return CostEstimate(estimate_seconds(variant, known, looked) + extra, sizes)

    def _find_cost_models(self, task: str) -> dict[str, CostModel]:
        writes = len(self._tasks[task].writes)
        parts = (f"{RefreshMode.INCREMENTAL}:{c}" for c in self._tasks[task].reads)
        names = [*PRIORS, *parts, *(v.name for v in self._tasks[task].variants)]
        found = {str(name): self._learnt.get((task, str(name))) or build_prior(str(name), writes) for name in names}
        return {n: k if len(k.yields) == writes else build_prior(n, writes) for n, k in found.items()}


def resolve_variant(variant: str, reads: Sequence[str], moved: Sequence[str]) -> str:
    """The variant of a task that takes in what changed on these channels: one of several has a variant of its own."""
    single = variant == RefreshMode.INCREMENTAL and len(reads) > 1 and len(moved) == 1
    return f"{RefreshMode.INCREMENTAL}:{moved[0]}" if single else variant


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """What would be done for a channel now, and what each way to do it looks like."""

    goal: str
    due: Version | None  # from when on it is too stale if nothing is done
    answer: PlanResult | None  # None: nothing needs to be done
    again: Version | None  # from when on it is too stale if no more than that is done

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        """What is run; what readers convert as they read is no step of its own."""
        plan = None if self.answer is None else self.answer.plan
        return () if plan is None else tuple(s for s in plan.steps if s.variant != APPLY.name)


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """Everything that a decision depends on."""

    graph: PlanningGraph
    standing: CatalogState
    learnt: Mapping[tuple[str, str], CostModel]

    def decide_refresh(
        self, goal: str, promise: FreshnessTarget, *, lead: float = 0.0, fresh: bool = False
    ) -> PlanDecision:
        """What to do for a promised channel; `fresh`: to reflect all that has arrived, whatever is promised."""
        wanted = replace(promise, lag={EVERY: 0.0}) if fresh else promise
        graph = self._build_graph(goal, wanted, lead)
        layout = GraphIndex(graph)
        stock = build_inventory(layout, self.standing)
        due = _find_due_time(layout, stock, goal, self.standing.timeline)
        if due is None or due > self.standing.now:
            return PlanDecision(goal, due, None, due)
        costs = LearntCosts(graph, self.standing, self.learnt)
        answer = DynamicProgrammingPlanner(layout, costs).find_plan(stock, goal, self.standing.timeline)
        if answer.plan is not None and answer.plan.delivers is not None:
            stock.deliver_block(answer.plan.delivers)
        return PlanDecision(goal, due, answer, _find_due_time(layout, stock, goal, self.standing.timeline))

    def _build_graph(self, goal: str, promise: FreshnessTarget, lead: float) -> PlanningGraph:
        pathways = GraphIndex(self.graph).pathways
        changed = (apply_target(c, promise, pathways[goal], lead) if c.name == goal else c for c in self.graph.channels)
        return replace(self.graph, channels=tuple(changed))


def _find_due_time(layout: GraphIndex, stock: BlockInventory, goal: str, timeline: Timeline) -> Version | None:
    """When a channel is too stale, or the first of what it derives from has come; None if that is not in sight."""
    ends = PlanningClock(timeline, layout.inputs).find_ends(goal, stock.get_delivered(goal))
    missing = NEVER in ends and any(
        timeline.versions.get(source) for source, e in zip(layout.inputs[goal], ends, strict=True) if e == NEVER
    )
    return timeline.now if missing else get_declared_limit(layout, goal).find_violation_time(ends, timeline.now)


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """How a promise is kept by one channel at a moment."""

    stale: Mapping[tuple[str, ...], float]  # seconds, by pathway
    bounds: Mapping[tuple[str, ...], float]  # of those that are bounded
    apart: float | None  # seconds between what it reflects, below zero if it was there together; None: nothing is
    consistency: float | None

    @property
    def is_late(self) -> bool:
        return any(self.stale.get(p, 0.0) > bound for p, bound in self.bounds.items())

    @property
    def is_inconsistent(self) -> bool:
        return self.consistency is not None and self.apart is not None and self.apart >= self.consistency


def compute_target_status(
    promise: FreshnessTarget, reached: Provenance, timeline: Timeline, declared: Iterable[tuple[str, ...]] = ()
) -> TargetStatus:
    """`declared` are the pathways by which inputs come to the channel, whether it reflects something of them or not."""
    pathways = tuple(reached.pathways)
    ends = {p: reached.find_pathway_end(p, timeline) for p in pathways}
    stale = {p: (timeline.now - e) / 1e6 for p, e in ends.items() if e is not None}
    unread = {p: timeline.versions.get(p[0], ()) for p in declared if pathways and p not in reached.pathways}
    stale |= {p: (timeline.now - versions[0]) / 1e6 for p, versions in unread.items() if versions}
    bounds = {p: lag for p in stale.keys() | set(pathways) if (lag := promise.find_lag(p)) is not None}
    vector = pack_provenance(reached, pathways)
    far = compute_inconsistency(vector, tuple(NEVER if e is None else e for e in ends.values())) if pathways else None
    return TargetStatus(stale, bounds, None if far is None else far / 1e6, promise.consistency)
