"""How a workflow stands in the catalog, and what the planner would do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tidemill.algebra.program import RefreshMode
from tidemill.model.block import ChannelPosition
from tidemill.model.change import Updates
from tidemill.model.channel import ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.freshness_target import NONE, FreshnessTarget
from tidemill.model.provenance import NOTHING
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
from tidemill.runtime.runs.execution import Upto
from tidemill.runtime.runs.views import ChannelViews

_WANTED = {"batch": "batch", "incremental": "incremental", "incremental_strict": "incremental"}


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One step of a plan: a bound flow with the variants to run, and up to where it reads."""

    step: PlanStep
    binding: BoundFlow
    upto: Upto
    stays: frozenset[str] = frozenset()  # channels on which it stays where it is, whatever comes


@dataclass
class PlanningContext:
    """One look at one workflow; it asks the catalog for each thing once, and does not see what happens meanwhile."""

    catalog: CatalogReader
    updates: Mapping[str, Updates]
    workflow: WorkflowSpec
    now: float
    incremental: bool = True  # else everything is computed anew

    def find_target(self, channel: str) -> FreshnessTarget:
        declared = self.workflow.find_channel(channel)
        return NONE if declared is None else declared.promise

    def decide_refresh(self, channel: str, *, lead: float = 0.0, fresh: bool = False) -> PlanDecision:
        """What to do for a promised channel now; `fresh`: to reflect everything, whatever is promised."""
        return self.decision_request.decide_refresh(channel, self.find_target(channel), lead=lead, fresh=fresh)

    @cached_property
    def decision_request(self) -> DecisionRequest:
        graph = build_graph(self.workflow, self._is_usable)
        reads = {t.name: t.reads for t in graph.tasks}
        return DecisionRequest(graph, self._read_catalog_state(reads), self._cost_models)

    def build_planned_runs(self, decision: PlanDecision) -> list[PlannedRun]:
        """What to run, in order. A flow of several tasks runs as a whole, and once."""
        found: dict[str, PlannedRun] = {}
        for step in decision.steps:
            place = self._task_places[step.task]
            if place.binding.name not in found:
                found[place.binding.name] = self._build_planned_run(step, place)
        return list(found.values())

    def _build_planned_run(self, step: PlanStep, place: BoundTask) -> PlannedRun:
        binding, task = place.binding, place.task
        read = [(t.name, r.port) for t in binding.tasks for r in t.reads if r.port not in binding.written_channels]
        upto = {key: self._channel_views.get_channel(key[1]).head.seq for key in read}
        if task.refresh is None or len(binding.tasks) > 1:
            return PlannedRun(step, binding, upto)
        channels = tuple(b.channel for b in step.reads)
        moved = [b.channel for b in step.reads if b.source != b.target]
        stays = [c for c in channels if c not in moved]
        upto |= {(task.name, c): self._cursor_positions[binding.name, task.name, c].seq for c in stays}
        variant = resolve_variant(step.variant, channels, moved)
        return PlannedRun(step, replace(binding, tasks=(task.select_variant(variant),)), upto, frozenset(stays))

    @cached_property
    def _channel_views(self) -> ChannelViews:
        return ChannelViews(self.catalog, self.updates)

    @cached_property
    def _task_places(self) -> dict[str, BoundTask]:
        return list_bound_tasks(self.workflow)

    @cached_property
    def _cursor_positions(self) -> dict[tuple[str, str, str], ChannelPosition]:
        return {(c.binding, c.task, c.channel): c.position for c in self.catalog.read_cursors()}

    @cached_property
    def _cost_models(self) -> dict[tuple[str, str], CostModel]:
        """By the planner's name of a task, and its variant."""
        flows = {place.binding.name for place in self._task_places.values()}
        costs = {flow: read_cost_models(self.catalog, flow) for flow in flows}
        return {
            (name, variant): known
            for name, place in self._task_places.items()
            for (task, variant), known in costs[place.binding.name].items()
            if task == place.task.name
        }

    @cached_property
    def _mode_choices(self) -> dict[tuple[str, str], RefreshChoice]:
        """What speaks for and against each way of each declared table, by flow and task."""
        found: dict[tuple[str, str], RefreshChoice] = {}
        for name, place in self._task_places.items():
            if place.task.refresh is not None:
                costs = {(place.task.name, v): k for (task, v), k in self._cost_models.items() if task == name}
                flow, task = place.binding.name, place.task
                found[flow, task.name] = compare_modes(self.catalog, flow, task, self.updates, costs)
        return found

    def _is_usable(self, binding: BoundFlow, task: Task, variant: Variant) -> bool:
        """Is a variant possible now, and is it what the table's user wants?"""
        if not self.incremental and variant.name == RefreshMode.INCREMENTAL:
            return False
        choice = self._mode_choices.get((binding.name, task.name))
        if choice is None or len(task.variants) == 1:
            return True
        possible = {o.way for o in choice.options if o.seconds is not None}
        if RefreshMode.INCREMENTAL not in possible and choice.way != RefreshMode.RECOMPUTE:
            possible.discard(RefreshMode.RECOMPUTE)  # where there is nothing to go on from, the state is made first
        wanted = _WANTED.get(task.refresh or "")
        return variant.name in possible and (wanted is None or wanted not in possible or variant.name == wanted)

    def _read_catalog_state(self, reads: Mapping[str, tuple[str, ...]]) -> CatalogState:
        kept = [c for c in self.workflow.channels if c.role is not ChannelRole.STATE]
        heads = {
            c.name: ChannelPoint(
                self._channel_views.get_channel(c.name).head.reached, self._compute_content_size(c.name)
            )
            for c in kept
        }
        cursors = {
            (name, channel): point
            for name, place in self._task_places.items()
            for channel, point in self._list_changes(place, reads[name])
        }
        points = [*heads.values(), *cursors.values()]
        arrivals = {c.name: self._read_arrivals(c.name, points) for c in kept if c.role is ChannelRole.INPUT}
        newest = max((versions[-1] for versions in arrivals.values() if versions), default=0)
        return CatalogState(heads, cursors, arrivals, max(int(self.now * 1_000_000), newest + 1))

    def _compute_content_size(self, channel: str) -> DataSize:
        """How much a channel holds."""
        known = self._channel_views.get_channel(channel)
        if known.channel.schema is None:
            return EMPTY
        return compute_size(list_blocks(self._channel_views.build_snapshot(channel, known.head.seq)))

    def _list_changes(self, place: BoundTask, reads: Iterable[str]) -> Iterator[tuple[str, ChannelPoint]]:
        """Where a task goes on from on each channel whose changes it takes, and how much changed since."""
        new = {r.port for v in place.task.variants for r in v.reads if r.mode is ReadMode.NEW}
        for channel in (c for c in reads if c in new):
            at = self._cursor_positions.get((place.binding.name, place.task.name, channel))
            if at is not None:
                yield channel, ChannelPoint(at.reached, self._compute_change_size(channel, at.seq))
            elif place.task.refresh is None:
                yield channel, ChannelPoint(NOTHING, self._compute_content_size(channel))

    def _compute_change_size(self, channel: str, since: int) -> DataSize:
        known = self._channel_views.get_channel(channel)
        if since == known.head.seq or known.channel.schema is None:
            return EMPTY
        view = self._channel_views.build_change(channel, since, known.head.seq)
        return (
            self._compute_content_size(channel) if isinstance(view, SnapshotDiff) else compute_size(list_deltas(view))
        )

    def _read_arrivals(self, channel: str, points: Iterable[ChannelPoint]) -> list[int]:
        """The oldest version that anything reflects, and all after it."""
        reflected = (p.reached[path] for p in points for path in p.reached.pathways if path[0] == channel)
        return self.catalog.list_versions(channel, min((min(versions) for versions in reflected), default=0))
