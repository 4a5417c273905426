"""The graph of channels and tasks, and the contents of its nodes. Pure: time is an argument."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass

from tidemill.display.formatting import format_age, format_count, format_duration, format_plural, to_timestamp
from tidemill.display.table import format_channel_url, format_flow_url
from tidemill.model.run import Run
from tidemill.ports.records import RegisteredTask
from tidemill.runtime.inspect.status import ChannelStatus, ProjectStatus
from tidemill.ui.health import HealthState, HealthVerdict, ProjectHealth
from tidemill.ui.snapshot import ProjectSnapshot


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


MAX_NODES = 200
"""Nodes that are drawn at once: more can neither be read nor be loaded quickly."""


def build_graph(status: ProjectStatus) -> DiagramGraph:
    """The channels of `status` and the tasks between them; the only writer of a channel is drawn as part of it."""
    names = dict.fromkeys(c.registered.channel.name for c in status.channels)
    tasks = [(f"task {f.name}/{t.name}", f.name, t) for f in status.flows for t in f.tasks]
    written = {key: _list_written(task, names) for key, _, task in tasks}
    writers = Counter(c for channels in written.values() for c in channels)
    merged = {key: cs[0] for key, cs in written.items() if len(cs) == 1 and writers[cs[0]] == 1}
    by_channel = {c: (flow, task.name) for key, flow, task in tasks for c in written[key] if writers[c] == 1}
    channels = [DiagramNode(f"channel {n}", n, *by_channel.get(n, (None, None))) for n in names]
    separate = [DiagramNode(key, None, flow, task.name) for key, flow, task in tasks if key not in merged]
    edges = dict.fromkeys(e for key, _, task in tasks for e in _list_edges(key, task, names, merged.get(key)))
    return DiagramGraph((*channels, *separate), tuple(edges))


def _list_written(task: RegisteredTask, visible: Container[str]) -> list[str]:
    return [c for c in dict.fromkeys(c for c, _ in task.writes) if c in visible]


def _list_edges(
    key: str, task: RegisteredTask, visible: Container[str], merged_channel: str | None
) -> Iterator[tuple[str, str]]:
    """A task's edges. Its state is drawn as written only, because an edge back would be a cycle."""
    written = _list_written(task, visible)
    target = key if merged_channel is None else f"channel {merged_channel}"
    for channel in dict.fromkeys(c for c, _ in task.reads):
        if channel in visible and channel not in written:
            yield f"channel {channel}", target
    if merged_channel is None:
        yield from ((key, f"channel {c}") for c in written)


def select_nodes(graph: DiagramGraph, health: ProjectHealth, query: str = "") -> DiagramGraph:
    """The nodes whose names contain all words of a query; of too many, those in the states of the highest precedence.

    >>> nodes = tuple(DiagramNode(f"channel t{n}", f"t{n}", None, None) for n in range(MAX_NODES + 1))
    >>> [len(select_nodes(DiagramGraph(nodes, ()), ProjectHealth({}, {}), query).nodes) for query in ("", "T19")]
    [200, 11]
    """
    words, order = query.lower().split(), tuple(HealthState)
    matching = [n for n in graph.nodes if all(word in n.key.lower() for word in words)]
    matching.sort(key=lambda node: order.index(_find_verdict(node, health).state))
    shown = {node.key for node in matching[:MAX_NODES]}
    edges = (edge for edge in graph.edges if shown.issuperset(edge))
    return DiagramGraph(tuple(n for n in graph.nodes if n.key in shown), tuple(edges))


def _find_verdict(node: DiagramNode, health: ProjectHealth) -> HealthVerdict:
    if node.channel is not None:
        return health.channels.get(node.channel, _UNKNOWN)
    return health.flows.get(node.flow or "", _UNKNOWN)


_UNKNOWN = HealthVerdict(HealthState.EMPTY, "")


@dataclass(frozen=True, slots=True)
class NodeCard:
    """A node as it is shown: its writer, its name, its health and the reason, and a few facts."""

    name: str
    href: str
    eyebrow: str
    eyebrow_href: str
    verdict: HealthVerdict
    facts: tuple[str, ...]  # the same number for all nodes of one kind
    sources: str  # its inputs; shown where no lines are drawn


def build_cards(
    snapshot: ProjectSnapshot, status: ProjectStatus, graph: DiagramGraph, health: ProjectHealth, now: float
) -> dict[str, NodeCard]:
    channels = {c.registered.channel.name: c for c in status.channels}
    sources = _format_sources(graph)
    return {
        node.key: _build_channel_card(snapshot, channels[node.channel], node, health, sources.get(node.key, ""), now)
        if node.channel is not None
        else _build_task_card(node, health, sources.get(node.key, ""))
        for node in graph.nodes
    }


def find_waiting_edges(snapshot: ProjectSnapshot, graph: DiagramGraph) -> set[tuple[str, str]]:
    """The edges with unread blocks."""
    flows = {n.key: n.flow for n in graph.nodes}
    names = {n.key: n.channel for n in graph.nodes}
    lagging = {(c.channel, c.flow) for c in snapshot.lagging_consumers}
    return {(a, b) for a, b in graph.edges if (names[a], flows[b]) in lagging}


def _format_sources(graph: DiagramGraph) -> dict[str, str]:
    names = {n.key: n.channel or n.task or "" for n in graph.nodes}
    sources: dict[str, list[str]] = defaultdict(list)
    for source, target in graph.edges:
        sources[target].append(names[source])
    return {key: ", ".join(sources[key]) for key in names}


def _build_channel_card(
    snapshot: ProjectSnapshot,
    channel: ChannelStatus,
    node: DiagramNode,
    health: ProjectHealth,
    sources: str,
    now: float,
) -> NodeCard:
    name = channel.registered.channel.name
    return NodeCard(
        name=name,
        href=format_channel_url(name),
        eyebrow=_format_eyebrow(channel, node.flow),
        eyebrow_href=format_flow_url(node.flow) if node.flow is not None else "",
        verdict=_find_verdict(node, health),
        facts=tuple(_list_facts(snapshot, channel, node, now)),
        sources=sources,
    )


def _format_eyebrow(channel: ChannelStatus, flow: str | None) -> str:
    """The writer of a channel; a flow of the same name is not repeated."""
    if flow is None:
        return str(channel.registered.channel.role)
    return "flow" if flow == channel.registered.channel.name else f"flow {flow}"


def _list_facts(snapshot: ProjectSnapshot, channel: ChannelStatus, node: DiagramNode, now: float) -> Iterator[str]:
    newest = channel.watermark or max((r.latest_version for r in channel.reflects), default=None)
    age = f" · {format_age(to_timestamp(newest), now)}" if newest is not None else ""
    if channel.rows is None:
        yield f"{format_count(channel.registered.rows)} rows in blocks{age}"
    else:
        yield f"{format_count(channel.rows)} rows{age}"
    flow = snapshot.flow_index.get(node.flow or "")
    if flow is None:
        readers = format_plural(len(channel.consumers), "task")
        yield f"{format_plural(channel.registered.blocks, 'block')}, read by {readers}"
    else:
        yield _format_last_run(flow.last, now)


def _format_last_run(run: Run | None, now: float) -> str:
    if run is None:
        return "never run"
    if run.finished is None:
        return f"run {run.id} is {run.state}"
    return f"run {run.id} {run.state} in {format_duration(run.started, run.finished, now)}"


def _build_task_card(node: DiagramNode, health: ProjectHealth, sources: str) -> NodeCard:
    flow = node.flow or ""
    return NodeCard(
        name=node.task or "",
        href=format_flow_url(flow),
        eyebrow="task" if flow == node.task else f"task of {flow}",
        eyebrow_href="",
        verdict=_find_verdict(node, health),
        facts=(),
        sources=sources,
    )
