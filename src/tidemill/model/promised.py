"""A workflow with its promises: each stands on its channel, and makes the flow that writes it run in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidemill.model.channel import Role
from tidemill.model.location import Location
from tidemill.model.promise import EVERY, Promise
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
    """What is wrong with promises in themselves: where they stand, and which inputs they name."""
    for name, (promise, where) in promises.items():
        channel = workflow.channel(name)
        if channel is None or channel.role is Role.INPUT:
            yield f"{where}: {name!r} is fed from outside, so nothing can be promised of it; promise it of a table"
            continue
        known = sorted(inputs_of(workflow, name))
        for stray in sorted(set(promise.lag) - {*known, EVERY}):
            yield (
                f"{where}: a lag of {name!r} is promised by way of {stray!r}, and no data come that way; "
                f"its inputs are {', '.join(known) or 'none'}"
            )


def inputs_of(workflow: Workflow, channel: str) -> frozenset[str]:
    """The input channels from which a channel is derived."""
    reads: dict[str, set[str]] = {}
    for task in workflow.tasks():
        for write in task.writes:
            reads.setdefault(write.port, set()).update(r.port for r in task.reads)
    found, unseen = {channel}, [channel]
    while unseen:
        new = reads.get(unseen.pop(), set()) - found
        found |= new
        unseen += new
    return frozenset(c.name for c in workflow.channels if c.role is Role.INPUT and c.name in found)


def _lags(workflow: Workflow, written: frozenset[str]) -> Iterator[Trigger]:
    """One trigger an input: of several channels that a flow writes, the one that must be freshest decides."""
    least: dict[str, float] = {}
    for channel in (c for c in workflow.channels if c.name in written and c.promise.lag):
        for source in inputs_of(workflow, channel.name):
            lag = channel.promise.lag_of(source)
            if lag is not None:
                least[source] = min(lag, least.get(source, lag))
    return (Lag(source, lag) for source, lag in sorted(least.items()))
