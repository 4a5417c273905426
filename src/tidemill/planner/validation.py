"""What is wrong with a workflow's promises, found before anything runs."""

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
    """A declaration that cannot be kept, and why."""

    where: str  # a channel or task
    why: str


def find_problems(graph: PlanningGraph) -> list[GraphProblem]:
    """Everything that is wrong; bounds are looked at once the workflow itself makes sense."""
    found = [*_find_task_problems(graph)]
    return found or [*_find_bound_problems(graph), *_find_output_problems(graph)]


def find_target_problems(graph: PlanningGraph) -> list[GraphProblem]:
    """What is wrong with a declared workflow's promises; the workflow itself was checked when it was declared."""
    writers = Counter(name for t in graph.tasks for name in t.writes)
    promised = [c.name for c in graph.channels if c.accepts]
    upstream = {c for name in promised for c in GraphIndex(graph).list_upstream(name)}
    several = [GraphProblem(c, "several tasks write it, so nothing can be promised of what follows from it")
               for c in upstream if writers[c] > 1]  # fmt: skip
    return several or [*_find_bound_problems(graph, _format_seconds), *_find_output_problems(graph)]


def _find_task_problems(graph: PlanningGraph) -> Iterator[GraphProblem]:
    known = {c.name for c in graph.channels}
    written: set[str] = set()
    readable = known - {name for t in graph.tasks for name in t.writes}
    for task in graph.tasks:
        for name in (*task.reads, *task.writes):
            if name not in known:
                yield GraphProblem(task.name, f"there is no channel {name}")
        for name in task.reads:
            if name in known and name not in readable:
                yield GraphProblem(
                    task.name, f"it reads {name} before the task that writes it; tasks must not go in circles"
                )
        for name in task.writes:
            if name in written:
                yield GraphProblem(name, "several tasks write it; one has to write all of it")
        if len(set(task.reads)) < len(task.reads):
            yield GraphProblem(task.name, "it reads a channel twice; one reading serves all uses")
        written.update(task.writes)
        readable |= set(task.writes)
        yield from _find_variant_problems(task)


def _find_variant_problems(task: TaskNode) -> Iterator[GraphProblem]:
    if not task.variants:
        yield GraphProblem(task.name, "it has no variant, so it can never run")
    for variant in task.variants:
        where = f"{task.name} ({variant.name})"
        if len(variant.takes) != len(task.reads) or len(variant.makes) != len(task.writes):
            yield GraphProblem(
                where, f"it must say what it takes of {len(task.reads)} and makes on {len(task.writes)} channels"
            )
        shapes = {take.shape for take in variant.takes} - {None}
        moves = bool(shapes - {BlockShape.BASE})
        if not shapes:
            yield GraphProblem(where, "it takes nothing from any channel")
        elif any((shape is BlockShape.BASE) == moves for shape in variant.makes):
            yield GraphProblem(where, "it must make deltas of deltas, and bases of bases alone")


def _find_bound_problems(graph: PlanningGraph, said: Callable[[Version], str] = str) -> Iterator[GraphProblem]:
    layout = GraphIndex(graph)
    for channel in graph.channels:
        for pathway, bound in channel.bounds.staleness.items():
            if pathway not in layout.pathways[channel.name]:
                yield GraphProblem(
                    channel.name,
                    f"its staleness is bounded by way of {_format_pathway(pathway)}, and no data come that way",
                )
            elif bound < 0:
                yield GraphProblem(
                    channel.name, f"its staleness by way of {_format_pathway(pathway)} cannot be less than nothing"
                )
            else:
                yield from _find_loose_upstream(layout, channel, pathway, bound, said)
        if (channel.bounds.inconsistency or 0) < 0:
            yield GraphProblem(channel.name, "its inconsistency cannot be less than nothing")


def _find_loose_upstream(
    layout: GraphIndex, channel: ChannelNode, pathway: Pathway, bound: Version, said: Callable[[Version], str]
) -> Iterator[GraphProblem]:
    """An output is fresh only if what it is made of is; an intermediate that is allowed more is not kept so fresh."""
    for at in range(1, len(pathway)):
        before = layout.channels[pathway[at]]
        allowed = before.bounds.staleness.get(pathway[:at])
        if allowed is not None and allowed > bound:
            may = f"it may be stale by {said(bound)} by way of {_format_pathway(pathway)}"
            why = f"{may}, but {before.name} on the way by {said(allowed)}"
            yield GraphProblem(channel.name, f"{why}; tighten the one or loosen the other")


def _find_output_problems(graph: PlanningGraph) -> Iterator[GraphProblem]:
    writer = GraphIndex(graph).writer
    for channel in graph.channels:
        if not channel.accepts or channel.name not in writer:
            continue
        task = writer[channel.name]
        at = task.writes.index(channel.name)
        made = {v.makes[at] for v in task.variants} | {k.makes for k in channel.conversions}
        if not any(map(channel.is_accepted, made)):
            yield GraphProblem(
                channel.name,
                f"who reads it accepts {_format_shapes(channel.accepts)}, but only {_format_shapes(made)} can be made",
            )


def _format_seconds(bound: Version) -> str:
    return f"{bound / 1e6:g} s"


def _format_pathway(pathway: Pathway) -> str:
    return " > ".join(pathway)


def _format_shapes(shapes: frozenset[BlockShape] | set[BlockShape]) -> str:
    return " or ".join(sorted(shapes))
