"""The state of a declared workflow in the catalog, and the planner's decisions for it.

A channel has its content at its head, and for each cursor the change since it. Every plan leads to the current heads;
data that arrives later waits for the next plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.program import RefreshMode, VariantName
from tidemill.model.freshness_target import ALL_PATHWAYS, FreshnessTarget
from tidemill.model.provenance import Provenance
from tidemill.model.time import Timeline, Version
from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.bounds import compute_inconsistency, get_declared_limit
from tidemill.planner.cost import CostModel, measure_reads
from tidemill.planner.graph import APPLY, DIFFERENCE, EMPTY, BlockNode, BlockShape, DataSize, PlanningGraph
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.planner import DynamicProgrammingPlanner
from tidemill.planner.refresh_mode import STATE_DROP_GAIN, complete_cost_models, estimate_refresh
from tidemill.planner.steps import CostEstimate, PlanResult, PlanStep
from tidemill.planner.vector import NEVER, PlanningClock, pack_provenance
from tidemill.planner.workflow_graph import READER_CONVERSIONS, apply_target


@dataclass(frozen=True, slots=True)
class ChannelPoint:
    """A position of a channel: the provenance there, and the size of its content or of the change since."""

    reached: Provenance
    size: DataSize


@dataclass(frozen=True, slots=True)
class CatalogState:
    """The state of a workflow at a time that is later than all arrivals."""

    heads: Mapping[str, ChannelPoint]  # of every channel
    cursors: Mapping[tuple[str, str], ChannelPoint]  # by task and channel: its cursor, and the change since
    arrivals: Mapping[str, Sequence[Version]]  # of every input, ascending
    now: Version

    @property
    def timeline(self) -> Timeline:
        return Timeline(self.arrivals, self.now)


def build_inventory(index: GraphIndex, state: CatalogState) -> BlockInventory:
    inventory = BlockInventory(index)
    for channel, head in state.heads.items():
        pathways = index.pathways[channel]
        target = pack_provenance(head.reached, pathways)
        points = [p for (_, c), p in state.cursors.items() if c == channel]
        deltas = {pack_provenance(p.reached, pathways): p.size for p in points}
        # Changes have the shape of the task's deltas, so that pruning can compare them.
        task = index.writer.get(channel)
        shapes = set() if task is None else {v.output_shapes[task.writes.index(channel)] for v in task.variants}
        is_monotone = shapes - {BlockShape.BASE} == {BlockShape.MONOTONE}
        shape = BlockShape.MONOTONE if is_monotone else BlockShape.STRONG
        inventory.add_block(BlockNode(channel, BlockShape.BASE, None, target, head.size))
        for source, size in deltas.items():
            inventory.add_block(BlockNode(channel, shape, source, source, EMPTY))  # to leave the cursor where it is
            if source != target:
                inventory.add_block(BlockNode(channel, shape, source, target, size))
    for output in index.graph.outputs:
        reached = pack_provenance(state.heads[output].reached, index.pathways[output])
        inventory.deliver_block(BlockNode(output, BlockShape.BASE, None, reached))
    return inventory


class LearntCosts:
    """Costs of steps, by cost models fitted from past runs."""

    def __init__(self, graph: PlanningGraph, state: CatalogState, models: Mapping[tuple[str, str], CostModel]) -> None:
        self._tasks = {t.name: t for t in graph.tasks}
        self._contents = {channel: head.size for channel, head in state.heads.items()}
        self._models = models
        self._completed: dict[str, dict[str, CostModel]] = {}  # with priors, by task

    def __call__(self, task: str, variant: str, reads: Sequence[BlockNode], /) -> CostEstimate:
        if variant == APPLY.name:
            return CostEstimate(0.0, (sum((b.size for b in reads), EMPTY),))
        if variant == DIFFERENCE.name:  # at most all rows of the new content
            return CostEstimate(0.0, (reads[-1].size,))
        models = self._find_cost_models(task)
        contents = sum((self._contents[c] for c in self._tasks[task].reads), EMPTY)
        name, volume, extra = variant, measure_reads(reads), 0.0
        if any(b.source is not None for b in reads):
            moved = [b for b in reads if b.source is not None and b.source != b.target]
            name = resolve_variant(variant, self._tasks[task].reads, [b.channel for b in moved])
            volume = replace(measure_reads(moved), content=contents.rows)
        elif variant == RefreshMode.RECOMPUTE:
            extra = STATE_DROP_GAIN
        seconds = estimate_refresh(name, models, volume, contents.bytes)
        return CostEstimate(seconds + extra, models[name].estimate_run(volume).sizes)

    def _find_cost_models(self, task: str) -> dict[str, CostModel]:
        if task not in self._completed:
            node = self._tasks[task]
            partial_names = (str(VariantName(RefreshMode.INCREMENTAL, c)) for c in node.reads)
            names = (*partial_names, *(v.name for v in node.variants))
            models = {name: model for (owner, name), model in self._models.items() if owner == task}
            self._completed[task] = complete_cost_models(models, names, len(node.writes))
        return self._completed[task]


def resolve_variant(variant: str, reads: Sequence[str], moved: Sequence[str]) -> str:
    """Return the variant that reads the changes of these channels: a single one of several has its own variant."""
    single = variant == RefreshMode.INCREMENTAL and len(reads) > 1 and len(moved) == 1
    return str(VariantName(RefreshMode.INCREMENTAL, moved[0])) if single else variant


_CONVERSIONS = frozenset(conversion.name for conversion in READER_CONVERSIONS)


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """The decision for a channel now, with the alternatives."""

    goal: str
    due: Version | None  # when it becomes too stale if nothing is done
    result: PlanResult | None  # None: nothing is due
    next_due: Version | None  # when it becomes too stale after this plan

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        """The steps to run; conversions that readers do while reading are not among them."""
        plan = None if self.result is None else self.result.plan
        return () if plan is None else tuple(s for s in plan.steps if s.variant not in _CONVERSIONS)


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """All data that a decision depends on."""

    graph: PlanningGraph
    state: CatalogState
    cost_models: Mapping[tuple[str, str], CostModel]

    def decide_refresh(
        self, goal: str, freshness_target: FreshnessTarget, *, lead: float = 0.0, fresh: bool = False
    ) -> PlanDecision:
        """Decide for a channel with a freshness target; `fresh`: reflect all data, regardless of it."""
        target = replace(freshness_target, lag={ALL_PATHWAYS: 0.0}) if fresh else freshness_target
        graph = self._build_graph(goal, target, lead)
        index = GraphIndex(graph)
        inventory = build_inventory(index, self.state)
        due = _find_due_time(index, inventory, goal, self.state.timeline)
        if due is None or due > self.state.now:
            return PlanDecision(goal, due, None, due)
        costs = LearntCosts(graph, self.state, self.cost_models)
        answer = DynamicProgrammingPlanner(index, costs).find_plan(inventory, goal, self.state.timeline)
        if answer.plan is not None and answer.plan.delivers is not None:
            inventory.deliver_block(answer.plan.delivers)
        return PlanDecision(goal, due, answer, _find_due_time(index, inventory, goal, self.state.timeline))

    def _build_graph(self, goal: str, target: FreshnessTarget, lead: float) -> PlanningGraph:
        pathways = GraphIndex(self.graph).pathways
        changed = (apply_target(c, target, pathways[goal], lead) if c.name == goal else c for c in self.graph.channels)
        tasks = []
        for task in self.graph.tasks:
            # Variants for single channels are for the goal: on the way to it, the later block is preferred.
            variants = (
                v for v in task.variants if goal in task.writes or VariantName.from_text(v.name).channel is None
            )
            tasks.append(replace(task, variants=tuple(variants)))
        return PlanningGraph(tuple(changed), tuple(tasks))


def _find_due_time(index: GraphIndex, inventory: BlockInventory, goal: str, timeline: Timeline) -> Version | None:
    """Return when a channel becomes too stale, or now if it lacks an input that has data; None if not foreseeable."""
    ends = PlanningClock(timeline, index.inputs).find_ends(goal, inventory.delivered[goal])
    unread = (source for source, end in zip(index.inputs[goal], ends, strict=True) if end == NEVER)
    is_missing = any(timeline.versions.get(source) for source in unread)
    return timeline.now if is_missing else get_declared_limit(index, goal).find_violation_time(ends, timeline.now)


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """How one channel meets its freshness target at a time."""

    staleness: Mapping[tuple[str, ...], float]  # seconds, by pathway
    bounds: Mapping[tuple[str, ...], float]  # of the bounded pathways
    inconsistency: float | None  # seconds, negative if all versions were valid together; None: no versions
    consistency: float | None

    @property
    def is_late(self) -> bool:
        return bool(self.list_late_pathways())

    def list_late_pathways(self, slack: float = 0.0) -> list[tuple[str, ...]]:
        """The pathways that are staler than their bound by more than `slack` seconds, the latest first."""
        excess = {p: self.staleness.get(p, 0.0) - bound for p, bound in self.bounds.items()}
        return sorted((p for p in excess if excess[p] > slack), key=lambda p: -excess[p])

    @property
    def is_inconsistent(self) -> bool:
        actual, bound = self.inconsistency, self.consistency
        return actual is not None and bound is not None and actual >= bound


def compute_target_status(
    target: FreshnessTarget, reached: Provenance, timeline: Timeline, declared: Iterable[tuple[str, ...]] = ()
) -> TargetStatus:
    """Compute the status of a target. `declared` are all pathways from inputs, even those without data."""
    pathways = tuple(reached.pathways)
    ends = {p: reached.find_pathway_end(p, timeline) for p in pathways}
    stale = {p: (timeline.now - e) / 1e6 for p, e in ends.items() if e is not None}
    unread = {p: timeline.versions.get(p[0], ()) for p in declared if pathways and p not in reached.pathways}
    stale |= {p: (timeline.now - versions[0]) / 1e6 for p, versions in unread.items() if versions}
    bounds = {p: lag for p in stale.keys() | set(pathways) if (lag := target.find_lag(p)) is not None}
    inconsistency = None
    if pathways:
        known_ends = tuple(NEVER if e is None else e for e in ends.values())
        inconsistency = compute_inconsistency(pack_provenance(reached, pathways), known_ends) / 1e6
    return TargetStatus(stale, bounds, inconsistency, target.consistency)
