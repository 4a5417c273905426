"""Converts a declared workflow to the planner's graph.

Every task of the workflow becomes one task of the graph. State channels are left out. A change is a delta in any
encoding: readers convert and apply it as they read. A delta may be empty, so an incremental refresh can read the
changes of some of its channels and leave the cursors of the others where they are.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.operators import list_scans
from tidemill.algebra.program import DeclaredQuery, VariantName
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
    DIFFERENCE,
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
"""Microseconds per second: the unit of versions."""

_SHAPES = {
    DeliveryForm.BASE: (BlockShape.BASE,),
    DeliveryForm.DELTA: (BlockShape.STRONG, BlockShape.MONOTONE),
    DeliveryForm.MONOTONE: (BlockShape.MONOTONE,),
}

VariantFilter = Callable[[BoundFlow, DeclaredTask, DeclaredVariant], bool]
"""Tells whether a variant may run now."""


@dataclass(frozen=True, slots=True)
class BoundTask:
    """The bound flow and the declared task of one of the planner's tasks."""

    binding: BoundFlow
    task: DeclaredTask


def list_bound_tasks(workflow: WorkflowSpec) -> dict[str, BoundTask]:
    """Return the workflow's tasks by the planner's names, in topological order."""
    bound = ((b, t) for b in workflow.bindings for t in b.tasks)
    tasks = {t.name if len(b.tasks) == 1 else f"{b.name}.{t.name}": BoundTask(b, t) for b, t in bound}
    writers = {w.port: name for name, bound in tasks.items() for w in bound.task.writes}
    ordered: dict[str, BoundTask] = {}

    def visit_task(name: str) -> None:
        if name not in ordered:
            outputs = {w.port for w in tasks[name].task.writes}
            for read in tasks[name].task.reads:
                if read.port in writers and read.port not in outputs:
                    visit_task(writers[read.port])
            ordered[name] = tasks[name]

    for name in tasks:
        visit_task(name)
    return ordered


def select_upstream(workflow: WorkflowSpec, flow: BoundFlow) -> WorkflowSpec:
    """Select the part of a workflow that plans for a flow's channels depend on: the flows upstream, and their channels.

    So the cost of a plan does not grow with unrelated tables. A channel that accepts only changes depends on its
    readers as well, by which contents may be compared; then the whole workflow is returned.
    """
    if any(c.freshness_target.accepts and c.name in flow.written_channels for c in workflow.channels):
        return workflow
    selected = _find_upstream_flows(workflow, flow)
    used = {c for b in selected.values() for c in b.read_channels | b.written_channels}
    channels = tuple(c for c in workflow.channels if c.name in used)
    return replace(workflow, channels=channels, bindings=tuple(b for b in workflow.bindings if b.name in selected))


def _find_upstream_flows(workflow: WorkflowSpec, flow: BoundFlow) -> dict[str, BoundFlow]:
    """Find, by name, the flow and all flows that write channels which one of them reads or writes."""
    writers = defaultdict[str, list[BoundFlow]](list)
    for binding in workflow.bindings:
        for channel in binding.written_channels:
            writers[channel].append(binding)
    selected, pending = {flow.name: flow}, [flow]
    while pending:
        binding = pending.pop()
        for writer in (w for c in binding.read_channels | binding.written_channels for w in writers[c]):
            if writer.name not in selected:
                selected[writer.name] = writer
                pending.append(writer)
    return selected


def build_graph(
    workflow: WorkflowSpec, usable: VariantFilter = lambda _b, _t, _v: True, *, strict: bool = False
) -> PlanningGraph:
    """Build the graph of a workflow with its freshness targets; `strict`: every task reads consistent inputs."""
    channels = {c.name: c for c in workflow.channels if c.role is not ChannelRole.STATE}
    bound_tasks = list_bound_tasks(workflow).items()
    tasks = tuple(_build_task(name, bound, channels, usable, strict) for name, bound in bound_tasks)
    comparable = _find_comparable_channels(workflow, tasks)
    nodes = (ChannelNode(c, conversions=READER_CONVERSIONS if c in comparable else (APPLY,)) for c in channels)
    unbounded = PlanningGraph(tuple(nodes), tasks)
    pathways = GraphIndex(unbounded).pathways
    bounded = (apply_target(c, channels[c.name].freshness_target, pathways[c.name]) for c in unbounded.channels)
    return PlanningGraph(tuple(bounded), tasks)


READER_CONVERSIONS = (APPLY, DIFFERENCE)
"""Conversions that readers do while they read, so they are no steps to run."""


def _find_comparable_channels(workflow: WorkflowSpec, tasks: Sequence[TaskNode]) -> set[str]:
    """Find the derived channels whose readers accept a difference of contents as a change: it may remove rows."""
    written, read = {c for t in tasks for c in t.writes}, {c for t in tasks for c in t.reads}
    appended = {c.name for c in workflow.channels if isinstance(c.updates, Append)}
    queries = [query for task in workflow.list_tasks() if (query := find_query(task)) is not None]
    growing = {scan.channel for query in queries for scan in list_scans(query.root) if scan.append_only}
    return (written & read) - appended - growing


def apply_target(
    channel: ChannelNode, target: FreshnessTarget, pathways: tuple[tuple[str, ...], ...], lead: float = 0.0
) -> ChannelNode:
    """Return a channel with its freshness target, tightened by `lead` seconds, but by at most half of each lag."""
    if not target:
        return channel
    lags = {p: target.find_lag(p) for p in pathways}
    staleness = {p: int((lag - min(lag / 2, lead)) * MICROSECONDS) for p, lag in lags.items() if lag is not None}
    inconsistency = None if target.consistency is None else int(target.consistency * MICROSECONDS)
    accepts = frozenset(s for form in target.accepts or (DeliveryForm.BASE, DeliveryForm.DELTA) for s in _SHAPES[form])
    return replace(channel, bounds=ChannelBounds(staleness, inconsistency), accepts=accepts)


def _build_task(
    name: str, bound: BoundTask, channels: Mapping[str, Declared], usable: VariantFilter, strict: bool
) -> TaskNode:
    task = bound.task
    reads = tuple(dict.fromkeys(r.port for r in task.reads if r.port in channels and r.port not in task.state_ports))
    writes = tuple(dict.fromkeys(w.port for w in task.writes if w.port in channels))
    variants = (v for v in task.variants if usable(bound.binding, task, v) and not _is_covered(task, v))
    nodes = (_build_variant(task, v, reads, writes, channels, strict) for v in variants)
    return TaskNode(name, reads, writes, tuple(nodes))


def _is_covered(task: DeclaredTask, variant: DeclaredVariant) -> bool:
    """Tell whether a variant is covered by another, which may read the changes of some channels only.

    The incremental variant of one channel is not if it adds rows only, while the variant of all channels does not:
    their blocks serve different purposes, so the planner compares their costs instead of preferring the later block.
    """
    channel = VariantName.from_text(variant.name).channel
    query = find_query(task)
    if channel is None or query is None:
        return False
    return is_append_only(query.root) or not is_append_only(query.root, channel)


def _build_variant(
    task: DeclaredTask,
    variant: DeclaredVariant,
    reads: tuple[str, ...],
    writes: tuple[str, ...],
    channels: Mapping[str, Declared],
    strict: bool,
) -> VariantNode:
    changed_ports = {r.port for r in variant.reads if r.mode is ReadMode.NEW}
    unmoved = set(reads) if VariantName.from_text(variant.name).channel is not None else set()
    ports = changed_ports | unmoved
    changes = {c: PortRequirement(BlockShape.STRONG, unmoved=c not in changed_ports) for c in ports}
    requirements = tuple(changes.get(c, PortRequirement(BlockShape.BASE)) for c in reads)
    query = find_query(task)
    grows = query is not None and (bool(unmoved) or is_append_only(query.root))
    deltas = {w.port for w in variant.writes if w.kind is not BlockKind.BASE and changed_ports & set(reads)}
    appends = {c for c in writes if task.refresh is None and isinstance(channels[c].updates, Append)}  # never retracted
    shapes = (
        (BlockShape.MONOTONE if grows or c in appends else BlockShape.STRONG) if c in deltas else BlockShape.BASE
        for c in writes
    )
    return VariantNode(variant.name, requirements, tuple(shapes), strict)


def find_query(task: DeclaredTask) -> DeclaredQuery | None:
    """Return the query of a declared table, if it can be refreshed incrementally."""
    code = task.variant.code
    return code.query if isinstance(code, Refresh) and isinstance(code.query, DeclaredQuery) else None
