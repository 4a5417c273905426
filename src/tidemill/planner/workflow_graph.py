"""A declared workflow as the planner sees it.

Every task of the workflow is one of the planner's. What a task keeps for itself is its own affair. A change is a
delta, whatever its encoding: readers convert as they read, and so they apply it. A delta may be empty, so a table that
is refreshed incrementally can take in what changed on some of its channels and leave the others where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tidemill.algebra.program import DeclaredQuery, RefreshMode
from tidemill.algebra.properties import is_append_only
from tidemill.model.block import BlockKind
from tidemill.model.change import Append
from tidemill.model.channel import Channel as Declared
from tidemill.model.channel import ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.freshness_target import DeliveryForm, FreshnessTarget
from tidemill.model.task import ReadMode, Refresh
from tidemill.model.task import Task as DeclaredTask
from tidemill.model.task import Variant as DeclaredVariant
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.graph import (
    APPLY,
    BlockShape,
    ChannelBounds,
    ChannelNode,
    PlanningGraph,
    PortRequirement,
    TaskNode,
    VariantNode,
)
from tidemill.planner.graph_index import GraphIndex

MICROSECONDS = 1_000_000
"""In a second: the unit of versions."""

_SHAPES = {
    DeliveryForm.BASE: (BlockShape.BASE,),
    DeliveryForm.DELTA: (BlockShape.STRONG, BlockShape.MONOTONE),
    DeliveryForm.MONOTONE: (BlockShape.MONOTONE,),
}

Usable = Callable[[BoundFlow, DeclaredTask, DeclaredVariant], bool]
"""May a variant run now?"""


@dataclass(frozen=True, slots=True)
class BoundTask:
    """Which task of which bound flow one of the planner's tasks is."""

    binding: BoundFlow
    task: DeclaredTask


def list_bound_tasks(workflow: WorkflowSpec) -> dict[str, BoundTask]:
    """The workflow's tasks under the planner's names, in an order in which they can run."""
    found = {_format_task_name(b, t): BoundTask(b, t) for b in workflow.bindings for t in b.tasks}
    channels = {w.port: name for name, place in found.items() for w in place.task.writes}
    ordered: dict[str, BoundTask] = {}

    def visit_task(name: str) -> None:
        if name not in ordered:
            own = {w.port for w in found[name].task.writes}
            for read in found[name].task.reads:
                if read.port in channels and read.port not in own:
                    visit_task(channels[read.port])
            ordered[name] = found[name]

    for name in found:
        visit_task(name)
    return ordered


def _format_task_name(binding: BoundFlow, task: DeclaredTask) -> str:
    return task.name if len(binding.tasks) == 1 else f"{binding.name}.{task.name}"


def build_graph(workflow: WorkflowSpec, usable: Usable = lambda _b, _t, _v: True) -> PlanningGraph:
    """The workflow with what is promised of it."""
    kept = {c.name: c for c in workflow.channels if c.role is not ChannelRole.STATE}
    tasks = tuple(_build_task(name, place, kept, usable) for name, place in list_bound_tasks(workflow).items())
    plain = PlanningGraph(tuple(ChannelNode(name, conversions=(APPLY,)) for name in kept), tasks)
    pathways = GraphIndex(plain).pathways
    return PlanningGraph(tuple(apply_target(c, kept[c.name].promise, pathways[c.name]) for c in plain.channels), tasks)


def apply_target(
    channel: ChannelNode, promise: FreshnessTarget, pathways: tuple[tuple[str, ...], ...], lead: float = 0.0
) -> ChannelNode:
    """A channel with its promise; `lead` seconds before one would be broken, or half its time, it counts as broken."""
    if not promise:
        return channel
    lags = {p: promise.find_lag(p) for p in pathways}
    staleness = {p: int((lag - min(lag / 2, lead)) * MICROSECONDS) for p, lag in lags.items() if lag is not None}
    apart = None if promise.consistency is None else int(promise.consistency * MICROSECONDS)
    accepts = frozenset(s for form in promise.accepts or (DeliveryForm.BASE, DeliveryForm.DELTA) for s in _SHAPES[form])
    return replace(channel, bounds=ChannelBounds(staleness, apart), accepts=accepts)


def _build_task(name: str, place: BoundTask, kept: Mapping[str, Declared], usable: Usable) -> TaskNode:
    task = place.task
    reads = tuple(dict.fromkeys(r.port for r in task.reads if r.port in kept and r.port not in task.state_ports))
    writes = tuple(dict.fromkeys(w.port for w in task.writes if w.port in kept))
    ways = (v for v in task.variants if _is_whole(v) and usable(place.binding, task, v))
    return TaskNode(name, reads, writes, tuple(_build_variant(task, v, reads, writes, kept) for v in ways))


def _is_whole(variant: DeclaredVariant) -> bool:
    """Is it a way of its own, and not one that takes in part of what another could?"""
    return not variant.name.startswith(f"{RefreshMode.INCREMENTAL}:")


def _build_variant(
    task: DeclaredTask,
    variant: DeclaredVariant,
    reads: tuple[str, ...],
    writes: tuple[str, ...],
    kept: Mapping[str, Declared],
) -> VariantNode:
    new = {r.port for r in variant.reads if r.mode is ReadMode.NEW}
    takes = tuple(PortRequirement(BlockShape.STRONG if c in new else BlockShape.BASE) for c in reads)
    moving = any(take.shape is BlockShape.STRONG for take in takes)
    kinds = {w.port: w.kind for w in variant.writes}
    delta = BlockShape.MONOTONE if _is_append_only(task) else BlockShape.STRONG
    makes = tuple(
        BlockShape.BASE if kinds[c] is BlockKind.BASE or not moving else _find_delta_shape(delta, task, kept[c])
        for c in writes
    )
    return VariantNode(variant.name, takes, makes)


def _is_append_only(task: DeclaredTask) -> bool:
    code = task.variant.code
    return isinstance(code, Refresh) and isinstance(code.query, DeclaredQuery) and is_append_only(code.query.root)


def _find_delta_shape(delta: BlockShape, task: DeclaredTask, channel: Declared) -> BlockShape:
    """What a programmed task appends it never takes back."""
    return BlockShape.MONOTONE if task.refresh is None and isinstance(channel.updates, Append) else delta
