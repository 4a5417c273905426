"""What is wrong with a workflow's promises, found before anything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidemill.model.provenance import Pathway
from tidemill.model.time import Version
from tidemill.planner.graph import Channel, Graph, Shape, Task
from tidemill.planner.graph_index import Layout


@dataclass(frozen=True, slots=True)
class Problem:
    """A declaration that cannot be kept, and why."""

    where: str  # a channel or task
    why: str


def problems(graph: Graph) -> list[Problem]:
    """Everything that is wrong; bounds are looked at once the workflow itself makes sense."""
    found = [*_of_tasks(graph)]
    return found or [*_of_bounds(graph), *_of_outputs(graph)]


def broken_promises(graph: Graph) -> list[Problem]:
    """What is wrong with a declared workflow's promises; the workflow itself was checked when it was declared."""
    writers = Counter(name for t in graph.tasks for name in t.writes)
    promised = [c.name for c in graph.channels if c.accepts]
    upstream = {c for name in promised for c in Layout(graph).upstream(name)}
    several = [Problem(c, "several tasks write it, so nothing can be promised of what follows from it")
               for c in upstream if writers[c] > 1]  # fmt: skip
    return several or [*_of_bounds(graph, _seconds), *_of_outputs(graph)]


def _of_tasks(graph: Graph) -> Iterator[Problem]:
    known = {c.name for c in graph.channels}
    written: set[str] = set()
    readable = known - {name for t in graph.tasks for name in t.writes}
    for task in graph.tasks:
        for name in (*task.reads, *task.writes):
            if name not in known:
                yield Problem(task.name, f"there is no channel {name}")
        for name in task.reads:
            if name in known and name not in readable:
                yield Problem(
                    task.name, f"it reads {name} before the task that writes it; tasks must not go in circles"
                )
        for name in task.writes:
            if name in written:
                yield Problem(name, "several tasks write it; one has to write all of it")
        if len(set(task.reads)) < len(task.reads):
            yield Problem(task.name, "it reads a channel twice; one reading serves all uses")
        written.update(task.writes)
        readable |= set(task.writes)
        yield from _of_variants(task)


def _of_variants(task: Task) -> Iterator[Problem]:
    if not task.variants:
        yield Problem(task.name, "it has no variant, so it can never run")
    for variant in task.variants:
        where = f"{task.name} ({variant.name})"
        if len(variant.takes) != len(task.reads) or len(variant.makes) != len(task.writes):
            yield Problem(
                where, f"it must say what it takes of {len(task.reads)} and makes on {len(task.writes)} channels"
            )
        shapes = {take.shape for take in variant.takes} - {None}
        moves = bool(shapes - {Shape.BASE})
        if not shapes:
            yield Problem(where, "it takes nothing from any channel")
        elif any((shape is Shape.BASE) == moves for shape in variant.makes):
            yield Problem(where, "it must make deltas of deltas, and bases of bases alone")


def _of_bounds(graph: Graph, said: Callable[[Version], str] = str) -> Iterator[Problem]:
    layout = Layout(graph)
    for channel in graph.channels:
        for pathway, bound in channel.bounds.staleness.items():
            if pathway not in layout.pathways[channel.name]:
                yield Problem(
                    channel.name, f"its staleness is bounded by way of {_way(pathway)}, and no data come that way"
                )
            elif bound < 0:
                yield Problem(channel.name, f"its staleness by way of {_way(pathway)} cannot be less than nothing")
            else:
                yield from _too_fresh(layout, channel, pathway, bound, said)
        if (channel.bounds.inconsistency or 0) < 0:
            yield Problem(channel.name, "its inconsistency cannot be less than nothing")


def _too_fresh(
    layout: Layout, channel: Channel, pathway: Pathway, bound: Version, said: Callable[[Version], str]
) -> Iterator[Problem]:
    """An output is fresh only if what it is made of is; an intermediate that is allowed more is not kept so fresh."""
    for at in range(1, len(pathway)):
        before = layout.channels[pathway[at]]
        allowed = before.bounds.staleness.get(pathway[:at])
        if allowed is not None and allowed > bound:
            may = f"it may be stale by {said(bound)} by way of {_way(pathway)}"
            why = f"{may}, but {before.name} on the way by {said(allowed)}"
            yield Problem(channel.name, f"{why}; tighten the one or loosen the other")


def _of_outputs(graph: Graph) -> Iterator[Problem]:
    writer = Layout(graph).writer
    for channel in graph.channels:
        if not channel.accepts or channel.name not in writer:
            continue
        task = writer[channel.name]
        at = task.writes.index(channel.name)
        made = {v.makes[at] for v in task.variants} | {k.makes for k in channel.conversions}
        if not any(map(channel.is_accepted, made)):
            yield Problem(
                channel.name, f"who reads it accepts {_list(channel.accepts)}, but only {_list(made)} can be made"
            )


def _seconds(bound: Version) -> str:
    return f"{bound / 1e6:g} s"


def _way(pathway: Pathway) -> str:
    return " > ".join(pathway)


def _list(shapes: frozenset[Shape] | set[Shape]) -> str:
    return " or ".join(sorted(shapes))
