"""What a node of the graph says. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.model.run import Run
from tidemill.runtime.inspect.status import ChannelStatus, Status
from tidemill.ui.elements import channel_url, flow_url
from tidemill.ui.formatting import ago, count, moment, plural, took
from tidemill.ui.graph import Graph, Node
from tidemill.ui.health import Judgement, Standing, Standings
from tidemill.ui.snapshot import Snapshot

_UNKNOWN = Judgement(Standing.EMPTY, "")


@dataclass(frozen=True, slots=True)
class Card:
    """A node as it is shown: who writes it, its name, how it stands and why, and a few facts."""

    name: str
    href: str
    eyebrow: str
    eyebrow_href: str
    judgement: Judgement
    facts: tuple[str, ...]  # always as many of one kind of node
    sources: str  # what it is made from; told where no lines are drawn


def cards(snapshot: Snapshot, shown: Status, drawn: Graph, standings: Standings, now: float) -> dict[str, Card]:
    """The cards of all nodes, by key."""
    channels = {c.registered.channel.name: c for c in shown.channels}
    sources = _sources(drawn)
    return {
        node.key: _channel(snapshot, channels[node.channel], node, standings, sources.get(node.key, ""), now)
        if node.channel is not None
        else _task(node, standings, sources.get(node.key, ""))
        for node in drawn.nodes
    }


def waiting_edges(snapshot: Snapshot, drawn: Graph) -> set[tuple[str, str]]:
    """The edges along which blocks wait."""
    flows = {n.key: n.flow for n in drawn.nodes}
    names = {n.key: n.channel for n in drawn.nodes}
    behind = {(c.channel, c.flow) for c in snapshot.behind}
    return {(a, b) for a, b in drawn.edges if (names[a], flows[b]) in behind}


def _sources(drawn: Graph) -> dict[str, str]:
    names = {n.key: n.channel or n.task or "" for n in drawn.nodes}
    return {n.key: ", ".join(names[a] for a, b in drawn.edges if b == n.key) for n in drawn.nodes}


def _channel(
    snapshot: Snapshot, channel: ChannelStatus, node: Node, standings: Standings, sources: str, now: float
) -> Card:
    name = channel.registered.channel.name
    return Card(
        name=name,
        href=channel_url(name),
        eyebrow=_eyebrow(channel, node.flow),
        eyebrow_href=flow_url(node.flow) if node.flow is not None else "",
        judgement=standings.channels.get(name, _UNKNOWN),
        facts=tuple(_facts(snapshot, channel, node, now)),
        sources=sources,
    )


def _eyebrow(channel: ChannelStatus, flow: str | None) -> str:
    """Who writes it; its own name is not said twice."""
    if flow is None:
        return str(channel.registered.channel.role)
    return "flow" if flow == channel.registered.channel.name else f"flow {flow}"


def _facts(snapshot: Snapshot, channel: ChannelStatus, node: Node, now: float) -> Iterator[str]:
    newest = channel.edge or max((r.latest for r in channel.reflects), default=None)
    age = f" · {ago(moment(newest), now)}" if newest is not None else ""
    known = (
        f"{count(channel.registered.rows)} rows in blocks" if channel.rows is None else f"{count(channel.rows)} rows"
    )
    yield f"{known}{age}"
    flow = snapshot.flow(node.flow) if node.flow is not None else None
    if flow is None:
        yield f"{plural(channel.registered.blocks, 'block')}, read by {plural(len(channel.consumers), 'task')}"
    else:
        yield _last(flow.last, now)


def _last(run: Run | None, now: float) -> str:
    if run is None:
        return "never run"
    if run.finished is None:
        return f"run {run.id} is {run.state}"
    return f"run {run.id} {run.state} in {took(run.started, run.finished, now)}"


def _task(node: Node, standings: Standings, sources: str) -> Card:
    flow = node.flow or ""
    return Card(
        name=node.task or "",
        href=flow_url(flow),
        eyebrow="task" if flow == node.task else f"task of {flow}",
        eyebrow_href="",
        judgement=standings.flows.get(flow, _UNKNOWN),
        facts=(),
        sources=sources,
    )
