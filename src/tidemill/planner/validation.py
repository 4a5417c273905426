"""Validates the freshness targets of a workflow before anything runs; its tasks were validated when declared."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.planner.graph import BlockShape, PlanningGraph
from tidemill.planner.graph_index import GraphIndex


@dataclass(frozen=True, slots=True)
class GraphProblem:
    """An invalid declaration, and why it is invalid."""

    subject: str  # a channel
    reason: str


def find_target_problems(graph: PlanningGraph) -> list[GraphProblem]:
    """Return the problems of a workflow's targets; those of bounds and shapes only if each channel has one writer."""
    index = GraphIndex(graph)
    writers = Counter(name for t in graph.tasks for name in t.writes)
    upstream = {c for name in graph.outputs for c in index.list_upstream(name)}
    reason = "several tasks write it, so no channel downstream of it can have a freshness target"
    conflicts = [GraphProblem(c, reason) for c in upstream if writers[c] > 1]
    return conflicts or [*_find_loose_upstream(index), *_find_unaccepted_outputs(index)]


def _find_loose_upstream(index: GraphIndex) -> Iterator[GraphProblem]:
    """Find intermediate channels with a looser bound: an output is fresh only if its inputs are."""
    for channel in index.graph.channels:
        for pathway, bound in channel.bounds.staleness.items():
            for position in range(1, len(pathway)):
                upstream = index.channels[pathway[position]]
                allowed = upstream.bounds.staleness.get(pathway[:position])
                if allowed is not None and allowed > bound:
                    limit = f"it may be stale by {bound / 1e6:g} s by way of {' > '.join(pathway)}"
                    reason = f"{limit}, but {upstream.name} on the way by {allowed / 1e6:g} s"
                    yield GraphProblem(channel.name, f"{reason}; tighten the one or loosen the other")


def _find_unaccepted_outputs(index: GraphIndex) -> Iterator[GraphProblem]:
    for channel in index.graph.channels:
        if not channel.accepts or channel.name not in index.writer:
            continue
        task = index.writer[channel.name]
        position = task.writes.index(channel.name)
        shapes = {v.output_shapes[position] for v in task.variants} | {k.target_shape for k in channel.conversions}
        if not any(map(channel.is_accepted, shapes)):
            accepted, written = _format_shapes(channel.accepts), _format_shapes(shapes)
            yield GraphProblem(channel.name, f"its readers accept {accepted}, but only {written} is written")


def _format_shapes(shapes: frozenset[BlockShape] | set[BlockShape]) -> str:
    return " or ".join(sorted(shapes))
