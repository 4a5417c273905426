"""Reads a workflow's state from the catalog and plans its refreshes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tidemill.algebra.program import RefreshMode
from tidemill.model.block import ChannelPosition
from tidemill.model.change import Updates
from tidemill.model.channel import ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.freshness_target import NO_TARGET, FreshnessTarget
from tidemill.model.provenance import EMPTY_PROVENANCE
from tidemill.model.task import ReadMode, Task, Variant
from tidemill.model.view import SnapshotDiff, list_blocks
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.catalog_state import CatalogState, ChannelPoint, DecisionRequest, PlanDecision, resolve_variant
from tidemill.planner.cost import CostModel
from tidemill.planner.graph import EMPTY, DataSize
from tidemill.planner.refresh_mode import RefreshChoice
from tidemill.planner.steps import PlanStep
from tidemill.planner.workflow_graph import BoundTask, build_graph, list_bound_tasks
from tidemill.ports.catalog import CatalogReader
from tidemill.runtime.freshness.refresh_mode import compare_modes, compute_size, list_deltas, read_cost_models
from tidemill.runtime.runs.execution import ReadPositions
from tidemill.runtime.runs.views import ChannelViews

_REQUESTED_VARIANTS = {"batch": "batch", "incremental": "incremental", "incremental_strict": "incremental"}


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One step of a plan: a bound flow with the chosen variants, and the positions up to which it reads."""

    step: PlanStep
    binding: BoundFlow
    positions: ReadPositions
    unmoved_channels: frozenset[str] = frozenset()  # channels whose cursor does not move, even if data arrives


@dataclass
class PlanningContext:
    """A consistent view of one workflow: it queries the catalog once for each item and does not see later changes."""

    catalog: CatalogReader
    updates: Mapping[str, Updates]
    workflow: WorkflowSpec
    now: float
    incremental: bool = True  # False: everything is recomputed

    def find_target(self, channel: str) -> FreshnessTarget:
        declared = self.workflow.find_channel(channel)
        return NO_TARGET if declared is None else declared.freshness_target

    def decide_refresh(self, channel: str, *, lead: float = 0.0, fresh: bool = False) -> PlanDecision:
        """Decide how to refresh a channel with a freshness target; `fresh`: reflect all data, regardless of it."""
        return self.decision_request.decide_refresh(channel, self.find_target(channel), lead=lead, fresh=fresh)

    @cached_property
    def decision_request(self) -> DecisionRequest:
        graph = build_graph(self.workflow, self._is_usable)
        reads = {t.name: t.reads for t in graph.tasks}
        return DecisionRequest(graph, self._read_catalog_state(reads), self._cost_models)

    def build_planned_runs(self, decision: PlanDecision) -> list[PlannedRun]:
        """Return the runs of a decision, in order. A flow of several tasks runs all of them, once."""
        planned_runs: dict[str, PlannedRun] = {}
        for step in decision.steps:
            bound_task = self._bound_tasks[step.task]
            if bound_task.binding.name not in planned_runs:
                planned_runs[bound_task.binding.name] = self._build_planned_run(step, bound_task)
        return list(planned_runs.values())

    def _build_planned_run(self, step: PlanStep, bound_task: BoundTask) -> PlannedRun:
        binding, task = bound_task.binding, bound_task.task
        read = [(t.name, r.port) for t in binding.tasks for r in t.reads if r.port not in binding.written_channels]
        upto = {key: self._channel_views.get_channel(key[1]).head.seq for key in read}
        if task.refresh is None or len(binding.tasks) > 1:
            return PlannedRun(step, binding, upto)
        channels = tuple(b.channel for b in step.reads)
        moved = [b.channel for b in step.reads if b.source != b.target]
        unmoved = [c for c in channels if c not in moved]
        upto |= {(task.name, c): self._cursor_positions[binding.name, task.name, c].seq for c in unmoved}
        variant = resolve_variant(step.variant, channels, moved)
        return PlannedRun(step, replace(binding, tasks=(task.select_variant(variant),)), upto, frozenset(unmoved))

    @cached_property
    def _channel_views(self) -> ChannelViews:
        return ChannelViews(self.catalog, self.updates)

    @cached_property
    def _bound_tasks(self) -> dict[str, BoundTask]:
        return list_bound_tasks(self.workflow)

    @cached_property
    def _cursor_positions(self) -> dict[tuple[str, str, str], ChannelPosition]:
        return {(c.binding, c.task, c.channel): c.position for c in self.catalog.read_cursors()}

    @cached_property
    def _cost_models(self) -> dict[tuple[str, str], CostModel]:
        """Cost models by the planner's name of a task, and its variant."""
        flows = {bound_task.binding.name for bound_task in self._bound_tasks.values()}
        costs = {flow: read_cost_models(self.catalog, flow) for flow in flows}
        return {
            (name, variant): model
            for name, bound_task in self._bound_tasks.items()
            for (task, variant), model in costs[bound_task.binding.name].items()
            if task == bound_task.task.name
        }

    @cached_property
    def _mode_choices(self) -> dict[tuple[str, str], RefreshChoice]:
        """The comparison of refresh modes for each declared table, by flow and task."""
        choices: dict[tuple[str, str], RefreshChoice] = {}
        for name, bound_task in self._bound_tasks.items():
            if bound_task.task.refresh is not None:
                costs = {
                    (bound_task.task.name, variant): model
                    for (task, variant), model in self._cost_models.items()
                    if task == name
                }
                flow, task = bound_task.binding.name, bound_task.task
                choices[flow, task.name] = compare_modes(self.catalog, flow, task, self.updates, costs)
        return choices

    def _is_usable(self, binding: BoundFlow, task: Task, variant: Variant) -> bool:
        """Tell whether a variant is possible now and allowed by the table's declared refresh mode."""
        if not self.incremental and variant.name == RefreshMode.INCREMENTAL:
            return False
        choice = self._mode_choices.get((binding.name, task.name))
        if choice is None or len(task.variants) == 1:
            return True
        possible = {o.mode for o in choice.options if o.seconds is not None}
        if RefreshMode.INCREMENTAL not in possible and choice.mode != RefreshMode.RECOMPUTE:
            possible.discard(RefreshMode.RECOMPUTE)  # without state to continue from, the state is built first
        requested = _REQUESTED_VARIANTS.get(task.refresh or "")
        return variant.name in possible and (
            requested is None or requested not in possible or variant.name == requested
        )

    def _read_catalog_state(self, reads: Mapping[str, tuple[str, ...]]) -> CatalogState:
        channels = [c for c in self.workflow.channels if c.role is not ChannelRole.STATE]
        heads = {
            c.name: ChannelPoint(
                self._channel_views.get_channel(c.name).head.provenance, self._compute_content_size(c.name)
            )
            for c in channels
        }
        cursors = {
            (name, channel): point
            for name, bound_task in self._bound_tasks.items()
            for channel, point in self._list_changes(bound_task, reads[name])
        }
        points = [*heads.values(), *cursors.values()]
        arrivals = {c.name: self._read_arrivals(c.name, points) for c in channels if c.role is ChannelRole.INPUT}
        newest = max((versions[-1] for versions in arrivals.values() if versions), default=0)
        return CatalogState(heads, cursors, arrivals, max(int(self.now * 1_000_000), newest + 1))

    def _compute_content_size(self, channel: str) -> DataSize:
        registered = self._channel_views.get_channel(channel)
        if registered.channel.schema is None:
            return EMPTY
        return compute_size(list_blocks(self._channel_views.build_snapshot(channel, registered.head.seq)))

    def _list_changes(self, bound_task: BoundTask, reads: Iterable[str]) -> Iterator[tuple[str, ChannelPoint]]:
        """Yield a task's position on each channel whose changes it reads, and the size of the change since."""
        new = {r.port for v in bound_task.task.variants for r in v.reads if r.mode is ReadMode.NEW}
        for channel in (c for c in reads if c in new):
            position = self._cursor_positions.get((bound_task.binding.name, bound_task.task.name, channel))
            if position is not None:
                yield channel, ChannelPoint(position.provenance, self._compute_change_size(channel, position.seq))
            elif bound_task.task.refresh is None:
                yield channel, ChannelPoint(EMPTY_PROVENANCE, self._compute_content_size(channel))

    def _compute_change_size(self, channel: str, since: int) -> DataSize:
        registered = self._channel_views.get_channel(channel)
        if since == registered.head.seq or registered.channel.schema is None:
            return EMPTY
        view = self._channel_views.build_change(channel, since, registered.head.seq)
        return (
            self._compute_content_size(channel) if isinstance(view, SnapshotDiff) else compute_size(list_deltas(view))
        )

    def _read_arrivals(self, channel: str, points: Iterable[ChannelPoint]) -> list[int]:
        """Read the versions of an input from the oldest that any channel reflects."""
        reflected = (p.reached[path] for p in points for path in p.reached.pathways if path[0] == channel)
        return self.catalog.list_versions(channel, min((min(versions) for versions in reflected), default=0))
