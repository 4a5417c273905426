"""A workflow with its promises: each stands on its channel, and makes the flow that writes it run in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidemill.model.channel import Role
from tidemill.model.freshness_target import EVERY, Promise, goes
from tidemill.model.location import Location
from tidemill.model.provenance import Pathway
from tidemill.model.trigger import Lag, Trigger
from tidemill.model.workflow import Workflow

Promises = Mapping[str, tuple[Promise, Location]]
"""By channel, what is promised of it, and where that was said."""


def with_promises(workflow: Workflow, promises: Promises) -> Workflow:
    """The workflow with these promises kept."""
    channels = tuple(replace(c, promise=promises[c.name][0]) if c.name in promises else c for c in workflow.channels)
    given = replace(workflow, channels=channels)
    bindings = tuple(replace(b, triggers=(*b.triggers, *_lags(given, b.written))) for b in workflow.bindings)
    return replace(given, bindings=bindings)


def misplaced(workflow: Workflow, promises: Promises) -> Iterator[str]:
    """What is wrong with promises in themselves: where they stand, and which ways they name."""
    for name, (promise, where) in promises.items():
        channel = workflow.channel(name)
        if channel is None or channel.role is Role.INPUT:
            yield f"{where}: {name!r} is fed from outside, so nothing can be promised of it; promise it of a table"
            continue
        pathways = pathways_of(workflow, name)
        known = ", ".join(sorted({p[0] for p in pathways}))
        for stray in sorted(w for w in promise.lag if w != EVERY and not any(goes(p, w) for p in pathways)):
            yield (
                f"{where}: a lag of {name!r} is promised by way of {stray!r}, and no data come that way; "
                f"its inputs are {known or 'none'}"
            )


def inputs_of(workflow: Workflow, channel: str) -> frozenset[str]:
    """The input channels from which a channel is derived."""
    reads = _reads(workflow)
    found, unseen = {channel}, [channel]
    while unseen:
        new = reads.get(unseen.pop(), set()) - found
        found |= new
        unseen += new
    return frozenset(c.name for c in workflow.channels if c.role is Role.INPUT and c.name in found)


def pathways_of(workflow: Workflow, channel: str) -> tuple[Pathway, ...]:
    """The ways that data take from inputs to a channel."""
    reads = _reads(workflow)
    inputs = {c.name for c in workflow.channels if c.role is Role.INPUT}

    def ways(name: str, passed: frozenset[str]) -> Iterator[Pathway]:
        for read in sorted(reads.get(name, set()) - passed):
            if read in inputs:
                yield (read,)
            yield from ((*way, read) for way in ways(read, passed | {read}))

    return tuple(ways(channel, frozenset([channel])))


def _reads(workflow: Workflow) -> dict[str, set[str]]:
    """By channel, what those who write it read."""
    reads: dict[str, set[str]] = {}
    for task in workflow.tasks():
        for write in task.writes:
            reads.setdefault(write.port, set()).update(r.port for r in task.reads)
    return reads


def _lags(workflow: Workflow, written: frozenset[str]) -> Iterator[Trigger]:
    """A trigger for each time within which something of an input must be reflected."""
    promised = {
        (pathway[0], lag)
        for channel in workflow.channels
        if channel.name in written and channel.promise.lag
        for pathway in pathways_of(workflow, channel.name)
        if (lag := channel.promise.lag_of(pathway)) is not None
    }
    return (Lag(source, lag) for source, lag in sorted(promised))
