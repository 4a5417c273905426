"""Plans the runs of flows: reads the state from the catalog, and asks the planner.

A flow that writes channels with freshness targets is planned over its workflow, so that its inputs are refreshed first
where that is needed. Any other flow is planned alone: its tables must be fresh now.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from tidemill.algebra.program import RefreshMode, VariantName
from tidemill.errors import ConfigError
from tidemill.model.change import Updates
from tidemill.model.channel import ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.freshness_target import NO_TARGET, FreshnessTarget
from tidemill.model.provenance import EMPTY_PROVENANCE
from tidemill.model.task import ReadMode, Task, Variant
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.catalog_state import CatalogState, ChannelPoint, DecisionRequest, PlanDecision, resolve_variant
from tidemill.planner.cost import CostModel
from tidemill.planner.graph import BlockNode, BlockShape, DataSize
from tidemill.planner.refresh_mode import (
    RefreshChoice,
    complete_cost_models,
    find_possible_variants,
    select_declared_variants,
)
from tidemill.planner.steps import PlanStep
from tidemill.planner.table_decision import TableDecision, decide_table
from tidemill.planner.workflow_graph import BoundTask, build_graph, list_bound_tasks
from tidemill.ports.catalog import CatalogReader
from tidemill.runtime.freshness.catalog_facts import CatalogFacts, PlannedBlocks
from tidemill.runtime.runs.execution import ReadPositions

INCREMENTAL_DISABLED = "the settings disable incremental refresh (planner.incremental)"


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a plan: a bound flow with the chosen variants, and the positions up to which it reads."""

    binding: BoundFlow
    positions: ReadPositions = field(default_factory=dict)
    unmoved_channels: frozenset[str] = frozenset()  # channels whose cursor does not move, even if data arrives


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plan of a flow's run: the runs of other flows that it needs, and its own."""

    own_run: PlannedRun | None  # None: nothing is due, or no plan would meet the target
    prerequisites: tuple[PlannedRun, ...] = ()
    choices: Mapping[str, RefreshChoice] = field(default_factory=dict)  # by declared table, without a target
    decision: PlanDecision | None = None  # with a target
    left_blocks: int = 0  # pending blocks that a catch-up limit leaves
    oldest_unread: float | None = None  # time of the first of them


@dataclass
class PlanningContext:
    """A consistent view of one workflow: it queries the catalog once for each item and does not see later changes."""

    catalog: CatalogReader
    updates: Mapping[str, Updates]
    workflow: WorkflowSpec
    incremental: bool = True  # False: everything is recomputed
    strict: bool = False  # True: in a plan for a target, every task reads consistent inputs

    def plan_run(
        self, binding: BoundFlow, *, lead: float = 0.0, fresh: bool = False, variant: str | None = None
    ) -> RunPlan:
        """Plan a run of a flow: for the first of its channels with a target that is due, or else for all its tables.

        `fresh`: reflect all data, regardless of targets. `variant` is the one that was requested for all its tables:
        then the run refreshes nothing else.
        """
        goals = self.find_goals(binding) if variant is None else []
        if not goals:
            chosen, choices = self.choose_variants(binding, variant)
            return RunPlan(PlannedRun(chosen), choices=choices)
        decisions = [self.decide_refresh(goal, lead=lead, fresh=fresh) for goal in goals]
        decision = next((d for d in decisions if d.steps), decisions[0])
        runs = self._build_planned_runs(decision)
        return RunPlan(runs[-1] if runs else None, tuple(runs[:-1]), decision=decision)

    def find_goals(self, binding: BoundFlow) -> list[str]:
        """Find the channels of a flow that have a freshness target."""
        return [c.name for c in self.workflow.channels if c.name in binding.written_channels and c.freshness_target]

    def find_target(self, channel: str) -> FreshnessTarget:
        declared = self.workflow.find_channel(channel)
        return NO_TARGET if declared is None else declared.freshness_target

    def decide_refresh(self, channel: str, *, lead: float = 0.0, fresh: bool = False) -> PlanDecision:
        """Decide how to refresh a channel with a freshness target; `fresh`: reflect all data, regardless of it."""
        return self.decision_request.decide_refresh(channel, self.find_target(channel), lead=lead, fresh=fresh)

    def choose_variants(
        self, binding: BoundFlow, variant: str | None = None, planned: PlannedBlocks | None = None
    ) -> tuple[BoundFlow, dict[str, RefreshChoice]]:
        """Return a flow with one variant for each task, so that its tables are fresh after `planned`, and why."""
        written, choices = dict(planned or {}), dict[str, RefreshChoice]()
        tasks: list[Task] = []
        for task in binding.tasks:
            if task.refresh is None:
                tasks.append(task)
                continue
            decision = self._decide_table(binding.name, task, written, variant)
            written[decision.result.channel] = decision.result
            choices[task.name] = decision.choice
            tasks.append(task.select_variant(decision.choice.mode) if len(task.variants) > 1 else task)
        return replace(binding, tasks=tuple(tasks)), choices

    def _decide_table(self, flow: str, task: Task, planned: PlannedBlocks, requested: str | None) -> TableDecision:
        names = [v.name for v in task.variants]
        if requested is not None and requested not in names:
            reason = f" ({task.batch_reason})" if task.batch_reason else ""
            raise ConfigError(
                f"table {task.name!r} has no variant {requested!r}{reason}; its variants are {', '.join(names)}"
            )
        if len(names) == 1:
            return self._decide_batch(task, requested)
        table = self._facts.read_table_state(flow, task, planned)
        if requested is None and not self.incremental:
            table = replace(table, disabled=INCREMENTAL_DISABLED)
        decision = decide_table(task, table, self._facts.read_cost_models(flow, task.name), requested)
        if decision is None:
            raise ConfigError(
                f"table {task.name!r} cannot be refreshed by variant {requested!r} now: {table.find_obstacle()}"
            )
        return decision

    def _decide_batch(self, task: Task, requested: str | None) -> TableDecision:
        """Return the decision for a table whose query can only be run in batch."""
        (write,) = task.writes
        reason = (task.batch_reason or "") if requested is None else f"variant {requested!r} was requested"
        content = self._facts.views.get_channel(write.port)
        result = BlockNode(write.port, BlockShape.BASE, None, (), DataSize(content.rows, content.bytes))
        return TableDecision(RefreshChoice(task.variant.name, reason, ()), result)

    @cached_property
    def decision_request(self) -> DecisionRequest:
        graph = build_graph(self.workflow, self._is_usable, strict=self.strict)
        reads = {t.name: t.reads for t in graph.tasks}
        return DecisionRequest(graph, self._read_catalog_state(reads), self._cost_models)

    def _build_planned_runs(self, decision: PlanDecision) -> list[PlannedRun]:
        """Return the runs of a decision, in order. A flow of several tasks runs all of them, once."""
        planned_runs: dict[str, PlannedRun] = {}
        planned: dict[str, BlockNode] = {}
        for step in decision.steps:
            bound_task = self._bound_tasks[step.task]
            if bound_task.binding.name not in planned_runs:
                planned_runs[bound_task.binding.name] = self._build_planned_run(step, bound_task, planned)
            planned |= {block.channel: block for block in step.writes}
        return list(planned_runs.values())

    def _build_planned_run(self, step: PlanStep, bound_task: BoundTask, planned: PlannedBlocks) -> PlannedRun:
        binding, task = bound_task.binding, bound_task.task
        read = [(t.name, r.port) for t in binding.tasks for r in t.reads if r.port not in binding.written_channels]
        upto = {key: self._facts.views.get_channel(key[1]).head.seq for key in read}
        if task.refresh is None or len(binding.tasks) > 1:
            return PlannedRun(self.choose_variants(binding, planned=planned)[0], upto)
        channels = tuple(b.channel for b in step.reads)
        moved = [b.channel for b in step.reads if b.source != b.target]
        unmoved = [c for c in channels if c not in moved]
        upto |= {(task.name, c): self._facts.cursors[binding.name, task.name, c].seq for c in unmoved}
        variant = resolve_variant(step.variant, channels, moved)
        return PlannedRun(replace(binding, tasks=(task.select_variant(variant),)), upto, frozenset(unmoved))

    @cached_property
    def _facts(self) -> CatalogFacts:
        return CatalogFacts(self.catalog, self.updates, self.workflow.bindings)

    @cached_property
    def _bound_tasks(self) -> dict[str, BoundTask]:
        return list_bound_tasks(self.workflow)

    @cached_property
    def _cost_models(self) -> dict[tuple[str, str], CostModel]:
        """Cost models by the planner's name of a task, and its variant."""
        return {
            (name, variant): model
            for name, bound_task in self._bound_tasks.items()
            for variant, model in self._facts.read_cost_models(bound_task.binding.name, bound_task.task.name).items()
        }

    @cached_property
    def _usable_variants(self) -> dict[tuple[str, str], frozenset[str]]:
        """The variants that are possible now and allowed by the declared refresh mode, by flow and task."""
        return {
            (bound_task.binding.name, bound_task.task.name): self._find_usable_variants(bound_task)
            for bound_task in self._bound_tasks.values()
            if len(bound_task.task.variants) > 1
        }

    def _find_usable_variants(self, bound_task: BoundTask) -> frozenset[str]:
        flow, task = bound_task.binding.name, bound_task.task
        names = [
            v.name
            for v in task.variants
            if self.incremental or VariantName.from_text(v.name).mode != RefreshMode.INCREMENTAL
        ]
        models = complete_cost_models(self._facts.read_cost_models(flow, task.name), names, 1)
        possible = find_possible_variants(self._facts.read_table_state(flow, task), names, models)
        return select_declared_variants(possible, task.refresh or "auto")

    def _is_usable(self, binding: BoundFlow, task: Task, variant: Variant) -> bool:
        usable = self._usable_variants.get((binding.name, task.name))
        return usable is None or variant.name in usable

    def _read_catalog_state(self, reads: Mapping[str, tuple[str, ...]]) -> CatalogState:
        channels, facts = [c for c in self.workflow.channels if c.role is not ChannelRole.STATE], self._facts
        heads = {
            c.name: ChannelPoint(facts.views.get_channel(c.name).head.provenance, facts.compute_content_size(c.name))
            for c in channels
        }
        cursors = {
            (name, channel): point
            for name, bound_task in self._bound_tasks.items()
            for channel, point in self._list_changes(bound_task, reads[name])
        }
        points = [*heads.values(), *cursors.values()]
        arrivals = self._read_arrivals([c.name for c in channels if c.role is ChannelRole.INPUT], points)
        newest = max((versions[-1] for versions in arrivals.values() if versions), default=0)
        return CatalogState(heads, cursors, arrivals, max(int(self.catalog.read_time() * 1_000_000), newest + 1))

    def _list_changes(self, bound_task: BoundTask, reads: Iterable[str]) -> Iterator[tuple[str, ChannelPoint]]:
        """Yield a task's position on each channel whose changes it reads, and the size of the change since."""
        new = {r.port for v in bound_task.task.variants for r in v.reads if r.mode is ReadMode.NEW}
        for channel in (c for c in reads if c in new):
            position = self._facts.cursors.get((bound_task.binding.name, bound_task.task.name, channel))
            if position is not None:
                change = self._facts.compute_change_size(channel, position.seq)
                yield channel, ChannelPoint(position.provenance, change)
            elif bound_task.task.refresh is None:
                yield channel, ChannelPoint(EMPTY_PROVENANCE, self._facts.compute_content_size(channel))

    def _read_arrivals(self, inputs: Iterable[str], points: Iterable[ChannelPoint]) -> Mapping[str, list[int]]:
        """Read the versions of each input from the oldest that any channel reflects."""
        oldest: dict[str, int] = {}
        reflected = ((path[0], min(v)) for p in points for path, v in p.reached.pathways.items())
        for name, version in reflected:
            oldest[name] = min(version, oldest.get(name, version))
        return self.catalog.channels.list_versions({name: oldest.get(name, 0) for name in inputs})
