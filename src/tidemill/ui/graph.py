"""The graph of channels and tasks. A task that is the only writer of a channel is drawn as part of it, as for most
tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.ports.records import RegisteredTask
from tidemill.runtime.inspect.status import ProjectStatus


@dataclass(frozen=True, slots=True)
class DiagramNode:
    """A channel, or a separate task. `flow` and `task` name the writer of a channel, if it is a single task."""

    key: str
    channel: str | None
    flow: str | None
    task: str | None


@dataclass(frozen=True, slots=True)
class DiagramGraph:
    """Data flows along the edges, from left to right: (from, to), by key."""

    nodes: tuple[DiagramNode, ...]
    edges: tuple[tuple[str, str], ...]


def build_graph(status: ProjectStatus) -> DiagramGraph:
    """The channels of `status` and the tasks between them; hidden channels are omitted."""
    names = [c.registered.channel.name for c in status.channels]
    tasks = [(f.name, t) for f in status.flows for t in f.tasks]
    writers = Counter(c for _, t in tasks for c in _list_written(t, names))
    merged = {
        k: c
        for k, c in ((_format_task_key(f, t), _find_only_written(t, names)) for f, t in tasks)
        if c and writers[c] == 1
    }
    by_channel = {c: (f, t.name) for f, t in tasks for c in _list_written(t, names) if writers[c] == 1}
    channels = [DiagramNode(f"channel {n}", n, *by_channel.get(n, (None, None))) for n in names]
    separate = [
        DiagramNode(_format_task_key(f, t), None, f, t.name) for f, t in tasks if _format_task_key(f, t) not in merged
    ]
    edges = dict.fromkeys(
        e for f, t in tasks for e in _list_edges(_format_task_key(f, t), t, names, merged.get(_format_task_key(f, t)))
    )
    return DiagramGraph((*channels, *separate), tuple(edges))


def _format_task_key(flow: str, task: RegisteredTask) -> str:
    return f"task {flow}/{task.name}"


def _list_written(task: RegisteredTask, visible: list[str]) -> list[str]:
    return [c for c in dict.fromkeys(c for c, _ in task.writes) if c in visible]


def _find_only_written(task: RegisteredTask, visible: list[str]) -> str | None:
    written = _list_written(task, visible)
    return written[0] if len(written) == 1 else None


def _list_edges(
    key: str, task: RegisteredTask, visible: list[str], merged_channel: str | None
) -> Iterator[tuple[str, str]]:
    """A task's edges. Its state is drawn as written only, because an edge back would be a cycle."""
    written = _list_written(task, visible)
    target = key if merged_channel is None else f"channel {merged_channel}"
    for channel in dict.fromkeys(c for c, _ in task.reads):
        if channel in visible and channel not in written:
            yield f"channel {channel}", target
    if merged_channel is None:
        yield from ((key, f"channel {c}") for c in written)
