"""How a workflow stands in the catalog, and what the planner would do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tidemill.algebra.program import Way
from tidemill.model.block import Position
from tidemill.model.change import Updates
from tidemill.model.channel import Role
from tidemill.model.flow import Binding
from tidemill.model.freshness_target import NONE, Promise
from tidemill.model.provenance import NOTHING
from tidemill.model.task import Mode, Task, Variant
from tidemill.model.view import Difference, blocks_of
from tidemill.model.workflow import Workflow
from tidemill.planner.catalog_state import Decision, Point, Question, Standing, incremental
from tidemill.planner.cost import Learnt
from tidemill.planner.graph import EMPTY, Size
from tidemill.planner.refresh_mode import Choice
from tidemill.planner.steps import Step
from tidemill.planner.workflow_graph import Place, graph_of, places_of
from tidemill.ports.catalog import CatalogReader
from tidemill.runtime.freshness.refresh_mode import deltas_of, learnt, size_of, weigh
from tidemill.runtime.runs.execution import Upto
from tidemill.runtime.runs.views import Views

_WANTED = {"batch": "batch", "incremental": "incremental", "incremental_strict": "incremental"}


@dataclass(frozen=True, slots=True)
class Errand:
    """One step of a plan: a bound flow with the variants to run, and up to where it reads."""

    step: Step
    binding: Binding
    upto: Upto
    stays: frozenset[str] = frozenset()  # channels on which it stays where it is, whatever comes


@dataclass
class Outlook:
    """One look at one workflow; it asks the catalog for each thing once, and does not see what happens meanwhile."""

    catalog: CatalogReader
    updates: Mapping[str, Updates]
    workflow: Workflow
    now: float
    incremental: bool = True  # else everything is computed anew

    def promise(self, channel: str) -> Promise:
        declared = self.workflow.channel(channel)
        return NONE if declared is None else declared.promise

    def decide(self, channel: str, *, lead: float = 0.0, fresh: bool = False) -> Decision:
        """What to do for a promised channel now; `fresh`: to reflect everything, whatever is promised."""
        return self.question.decide(channel, self.promise(channel), lead=lead, fresh=fresh)

    @cached_property
    def question(self) -> Question:
        graph = graph_of(self.workflow, self._is_usable)
        reads = {t.name: t.reads for t in graph.tasks}
        return Question(graph, self._standing(reads), self._learnt)

    def errands(self, decision: Decision) -> list[Errand]:
        """What to run, in order. A flow of several tasks runs as a whole, and once."""
        found: dict[str, Errand] = {}
        for step in decision.steps:
            place = self._places[step.task]
            if place.binding.name not in found:
                found[place.binding.name] = self._errand(step, place)
        return list(found.values())

    def _errand(self, step: Step, place: Place) -> Errand:
        binding, task = place.binding, place.task
        read = [(t.name, r.port) for t in binding.tasks for r in t.reads if r.port not in binding.written]
        upto = {key: self._views.channel(key[1]).head.seq for key in read}
        if task.refresh is None or len(binding.tasks) > 1:
            return Errand(step, binding, upto)
        channels = tuple(b.channel for b in step.reads)
        moved = [b.channel for b in step.reads if b.source != b.target]
        stays = [c for c in channels if c not in moved]
        upto |= {(task.name, c): self._cursors[binding.name, task.name, c].seq for c in stays}
        variant = incremental(step.variant, channels, moved)
        return Errand(step, replace(binding, tasks=(task.choosing(variant),)), upto, frozenset(stays))

    @cached_property
    def _views(self) -> Views:
        return Views(self.catalog, self.updates)

    @cached_property
    def _places(self) -> dict[str, Place]:
        return places_of(self.workflow)

    @cached_property
    def _cursors(self) -> dict[tuple[str, str, str], Position]:
        return {(c.binding, c.task, c.channel): c.position for c in self.catalog.cursors()}

    @cached_property
    def _learnt(self) -> dict[tuple[str, str], Learnt]:
        """By the planner's name of a task, and its variant."""
        flows = {place.binding.name for place in self._places.values()}
        costs = {flow: learnt(self.catalog, flow) for flow in flows}
        return {
            (name, variant): known
            for name, place in self._places.items()
            for (task, variant), known in costs[place.binding.name].items()
            if task == place.task.name
        }

    @cached_property
    def _choices(self) -> dict[tuple[str, str], Choice]:
        """What speaks for and against each way of each declared table, by flow and task."""
        found: dict[tuple[str, str], Choice] = {}
        for name, place in self._places.items():
            if place.task.refresh is not None:
                costs = {(place.task.name, v): k for (task, v), k in self._learnt.items() if task == name}
                flow, task = place.binding.name, place.task
                found[flow, task.name] = weigh(self.catalog, flow, task, self.updates, costs)
        return found

    def _is_usable(self, binding: Binding, task: Task, variant: Variant) -> bool:
        """Is a variant possible now, and is it what the table's user wants?"""
        if not self.incremental and variant.name == Way.INCREMENTAL:
            return False
        choice = self._choices.get((binding.name, task.name))
        if choice is None or len(task.variants) == 1:
            return True
        possible = {o.way for o in choice.options if o.seconds is not None}
        if Way.INCREMENTAL not in possible and choice.way != Way.RECOMPUTE:
            possible.discard(Way.RECOMPUTE)  # where there is nothing to go on from, the state is made first
        wanted = _WANTED.get(task.refresh or "")
        return variant.name in possible and (wanted is None or wanted not in possible or variant.name == wanted)

    def _standing(self, reads: Mapping[str, tuple[str, ...]]) -> Standing:
        kept = [c for c in self.workflow.channels if c.role is not Role.STATE]
        heads = {c.name: Point(self._views.channel(c.name).head.reached, self._size(c.name)) for c in kept}
        cursors = {
            (name, channel): point
            for name, place in self._places.items()
            for channel, point in self._changes(place, reads[name])
        }
        points = [*heads.values(), *cursors.values()]
        arrivals = {c.name: self._arrivals(c.name, points) for c in kept if c.role is Role.INPUT}
        newest = max((versions[-1] for versions in arrivals.values() if versions), default=0)
        return Standing(heads, cursors, arrivals, max(int(self.now * 1_000_000), newest + 1))

    def _size(self, channel: str) -> Size:
        """How much a channel holds."""
        known = self._views.channel(channel)
        if known.channel.schema is None:
            return EMPTY
        return size_of(blocks_of(self._views.snapshot(channel, known.head.seq)))

    def _changes(self, place: Place, reads: Iterable[str]) -> Iterator[tuple[str, Point]]:
        """Where a task goes on from on each channel whose changes it takes, and how much changed since."""
        new = {r.port for v in place.task.variants for r in v.reads if r.mode is Mode.NEW}
        for channel in (c for c in reads if c in new):
            at = self._cursors.get((place.binding.name, place.task.name, channel))
            if at is not None:
                yield channel, Point(at.reached, self._changed(channel, at.seq))
            elif place.task.refresh is None:
                yield channel, Point(NOTHING, self._size(channel))

    def _changed(self, channel: str, since: int) -> Size:
        known = self._views.channel(channel)
        if since == known.head.seq or known.channel.schema is None:
            return EMPTY
        view = self._views.change(channel, since, known.head.seq)
        return self._size(channel) if isinstance(view, Difference) else size_of(deltas_of(view))

    def _arrivals(self, channel: str, points: Iterable[Point]) -> list[int]:
        """The oldest version that anything reflects, and all after it."""
        reflected = (p.reached[path] for p in points for path in p.reached.pathways if path[0] == channel)
        return self.catalog.versions(channel, min((min(versions) for versions in reflected), default=0))
