"""Validates the freshness targets of a workflow before anything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidemill.model.provenance import Pathway
from tidemill.model.time import Version
from tidemill.planner.graph import BlockShape, ChannelNode, PlanningGraph, TaskNode
from tidemill.planner.graph_index import GraphIndex


@dataclass(frozen=True, slots=True)
class GraphProblem:
    """An invalid declaration, and why it is invalid."""

    subject: str  # a channel or task
    reason: str


def find_problems(graph: PlanningGraph) -> list[GraphProblem]:
    """Return all problems; bounds are checked only if the tasks are valid."""
    problems = [*_find_task_problems(graph)]
    return problems or [*_find_bound_problems(graph), *_find_output_problems(graph)]


def find_target_problems(graph: PlanningGraph) -> list[GraphProblem]:
    """Return the problems of a declared workflow's targets; its tasks were validated when they were declared."""
    writers = Counter(name for t in graph.tasks for name in t.writes)
    targeted = [c.name for c in graph.channels if c.accepts]
    upstream = {c for name in targeted for c in GraphIndex(graph).list_upstream(name)}
    conflicts = [GraphProblem(c, "several tasks write it, so no channel downstream of it can have a freshness target")
               for c in upstream if writers[c] > 1]  # fmt: skip
    return conflicts or [*_find_bound_problems(graph, _format_seconds), *_find_output_problems(graph)]


def _find_task_problems(graph: PlanningGraph) -> Iterator[GraphProblem]:
    channels = {c.name for c in graph.channels}
    written: set[str] = set()
    readable = channels - {name for t in graph.tasks for name in t.writes}
    for task in graph.tasks:
        for name in (*task.reads, *task.writes):
            if name not in channels:
                yield GraphProblem(task.name, f"there is no channel {name}")
        for name in task.reads:
            if name in channels and name not in readable:
                yield GraphProblem(
                    task.name, f"it reads {name} before the task that writes it; tasks must not form a cycle"
                )
        for name in task.writes:
            if name in written:
                yield GraphProblem(name, "several tasks write it; exactly one must write it")
        if len(set(task.reads)) < len(task.reads):
            yield GraphProblem(task.name, "it reads a channel twice; read it once")
        written.update(task.writes)
        readable |= set(task.writes)
        yield from _find_variant_problems(task)


def _find_variant_problems(task: TaskNode) -> Iterator[GraphProblem]:
    if not task.variants:
        yield GraphProblem(task.name, "it has no variant, so it can never run")
    for variant in task.variants:
        where = f"{task.name} ({variant.name})"
        if len(variant.requirements) != len(task.reads) or len(variant.output_shapes) != len(task.writes):
            yield GraphProblem(where, f"it must declare {len(task.reads)} inputs and {len(task.writes)} outputs")
        shapes = {take.shape for take in variant.requirements} - {None}
        reads_delta = bool(shapes - {BlockShape.BASE})
        if not shapes:
            yield GraphProblem(where, "it reads no channel")
        elif any((shape is BlockShape.BASE) == reads_delta for shape in variant.output_shapes):
            yield GraphProblem(where, "it must write deltas if it reads a delta, and bases if it reads only bases")


def _find_bound_problems(graph: PlanningGraph, format_bound: Callable[[Version], str] = str) -> Iterator[GraphProblem]:
    index = GraphIndex(graph)
    for channel in graph.channels:
        for pathway, bound in channel.bounds.staleness.items():
            if pathway not in index.pathways[channel.name]:
                yield GraphProblem(
                    channel.name,
                    f"its staleness is bounded by way of {_format_pathway(pathway)}, but there is no such pathway",
                )
            elif bound < 0:
                yield GraphProblem(
                    channel.name, f"its staleness by way of {_format_pathway(pathway)} cannot be negative"
                )
            else:
                yield from _find_loose_upstream(index, channel, pathway, bound, format_bound)
        if (channel.bounds.inconsistency or 0) < 0:
            yield GraphProblem(channel.name, "its inconsistency cannot be negative")


def _find_loose_upstream(
    index: GraphIndex, channel: ChannelNode, pathway: Pathway, bound: Version, format_bound: Callable[[Version], str]
) -> Iterator[GraphProblem]:
    """Find intermediate channels with a looser bound: an output is fresh only if its inputs are."""
    for position in range(1, len(pathway)):
        upstream = index.channels[pathway[position]]
        allowed = upstream.bounds.staleness.get(pathway[:position])
        if allowed is not None and allowed > bound:
            limit = f"it may be stale by {format_bound(bound)} by way of {_format_pathway(pathway)}"
            reason = f"{limit}, but {upstream.name} on the way by {format_bound(allowed)}"
            yield GraphProblem(channel.name, f"{reason}; tighten the one or loosen the other")


def _find_output_problems(graph: PlanningGraph) -> Iterator[GraphProblem]:
    writer = GraphIndex(graph).writer
    for channel in graph.channels:
        if not channel.accepts or channel.name not in writer:
            continue
        task = writer[channel.name]
        position = task.writes.index(channel.name)
        shapes = {v.output_shapes[position] for v in task.variants} | {k.target_shape for k in channel.conversions}
        if not any(map(channel.is_accepted, shapes)):
            yield GraphProblem(
                channel.name,
                f"its readers accept {_format_shapes(channel.accepts)}, but only {_format_shapes(shapes)} is written",
            )


def _format_seconds(bound: Version) -> str:
    return f"{bound / 1e6:g} s"


def _format_pathway(pathway: Pathway) -> str:
    return " > ".join(pathway)


def _format_shapes(shapes: frozenset[BlockShape] | set[BlockShape]) -> str:
    return " or ".join(sorted(shapes))
