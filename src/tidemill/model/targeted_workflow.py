"""A workflow with its promises: each stands on its channel, and makes the flow that writes it run in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidemill.model.channel import ChannelRole
from tidemill.model.freshness_target import EVERY, FreshnessTarget, is_routed_via
from tidemill.model.location import SourceLocation
from tidemill.model.provenance import Pathway
from tidemill.model.trigger import LagTrigger, Trigger
from tidemill.model.workflow import WorkflowSpec

Promises = Mapping[str, tuple[FreshnessTarget, SourceLocation]]
"""By channel, what is promised of it, and where that was said."""


def add_freshness_targets(workflow: WorkflowSpec, promises: Promises) -> WorkflowSpec:
    """The workflow with these promises kept."""
    channels = tuple(replace(c, promise=promises[c.name][0]) if c.name in promises else c for c in workflow.channels)
    given = replace(workflow, channels=channels)
    bindings = tuple(
        replace(b, triggers=(*b.triggers, *_build_lag_triggers(given, b.written_channels))) for b in workflow.bindings
    )
    return replace(given, bindings=bindings)


def find_misplaced_targets(workflow: WorkflowSpec, promises: Promises) -> Iterator[str]:
    """What is wrong with promises in themselves: where they stand, and which ways they name."""
    for name, (promise, where) in promises.items():
        channel = workflow.find_channel(name)
        if channel is None or channel.role is ChannelRole.INPUT:
            yield f"{where}: {name!r} is fed from outside, so nothing can be promised of it; promise it of a table"
            continue
        pathways = find_pathways(workflow, name)
        known = ", ".join(sorted({p[0] for p in pathways}))
        for stray in sorted(w for w in promise.lag if w != EVERY and not any(is_routed_via(p, w) for p in pathways)):
            yield (
                f"{where}: a lag of {name!r} is promised by way of {stray!r}, and no data come that way; "
                f"its inputs are {known or 'none'}"
            )


def find_inputs(workflow: WorkflowSpec, channel: str) -> frozenset[str]:
    """The input channels from which a channel is derived."""
    reads = _index_reads(workflow)
    found, unseen = {channel}, [channel]
    while unseen:
        new = reads.get(unseen.pop(), set()) - found
        found |= new
        unseen += new
    return frozenset(c.name for c in workflow.channels if c.role is ChannelRole.INPUT and c.name in found)


def find_pathways(workflow: WorkflowSpec, channel: str) -> tuple[Pathway, ...]:
    """The ways that data take from inputs to a channel."""
    reads = _index_reads(workflow)
    inputs = {c.name for c in workflow.channels if c.role is ChannelRole.INPUT}

    def walk_pathways(name: str, passed: frozenset[str]) -> Iterator[Pathway]:
        for read in sorted(reads.get(name, set()) - passed):
            if read in inputs:
                yield (read,)
            yield from ((*way, read) for way in walk_pathways(read, passed | {read}))

    return tuple(walk_pathways(channel, frozenset([channel])))


def _index_reads(workflow: WorkflowSpec) -> dict[str, set[str]]:
    """By channel, what those who write it read."""
    reads: dict[str, set[str]] = {}
    for task in workflow.list_tasks():
        for write in task.writes:
            reads.setdefault(write.port, set()).update(r.port for r in task.reads)
    return reads


def _build_lag_triggers(workflow: WorkflowSpec, written: frozenset[str]) -> Iterator[Trigger]:
    """A trigger for each time within which something of an input must be reflected."""
    promised = {
        (pathway[0], lag)
        for channel in workflow.channels
        if channel.name in written and channel.promise.lag
        for pathway in find_pathways(workflow, channel.name)
        if (lag := channel.promise.find_lag(pathway)) is not None
    }
    return (LagTrigger(source, lag) for source, lag in sorted(promised))
