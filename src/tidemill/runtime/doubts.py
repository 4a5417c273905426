"""Promises that history says cannot be kept."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from tidemill.model.promised import inputs_of
from tidemill.model.run import Run, RunKind, RunState
from tidemill.model.workflow import Workflow
from tidemill.ports import CatalogReader

REMEMBERED = 10
"""Runs of a flow that say how long it takes."""


def doubts(catalog: CatalogReader, workflow: Workflow) -> Iterator[str]:
    """For each promise whose flows, one after another, usually take longer than promised, what speaks against it."""
    for channel in workflow.channels:
        for source in sorted(inputs_of(workflow, channel.name)):
            lag = channel.promise.lag_of(source)
            if lag:  # nothing is faster than at once
                expected = sum(_usual(catalog, flow) for flow in _between(workflow, source, channel.name))
                if expected > lag:
                    yield (
                        f"{channel.name} must reflect {source} within {lag:g} s, but refreshing it and what it derives "
                        f"from has taken about {expected:.1f} s lately; allow it more time, or refresh less of it"
                    )


def _between(workflow: Workflow, source: str, channel: str) -> Iterator[str]:
    """The flows by way of which an input reaches a channel."""
    for binding in workflow.bindings:
        reached = any(source in inputs_of(workflow, written) for written in binding.written)
        leads = channel in binding.written or any(_leads(workflow, written, channel) for written in binding.written)
        if reached and leads:
            yield binding.name


def _leads(workflow: Workflow, source: str, channel: str) -> bool:
    """Is one channel derived from the other?"""
    readers = [t for t in workflow.tasks() if any(r.port == source for r in t.reads) and source not in t.states]
    written = {w.port for t in readers for w in t.writes}
    return channel in written or any(_leads(workflow, w, channel) for w in written - {source})


def _usual(catalog: CatalogReader, flow: str) -> float:
    """Seconds; nothing, of a flow that never ran."""
    ended = catalog.runs(subject=flow, state=RunState.FINISHED, limit=REMEMBERED)
    took = [seconds for run in ended if (seconds := _took(run)) is not None]
    return median(took) if took else 0.0


def _took(run: Run) -> float | None:
    if run.kind is not RunKind.FLOW or run.started is None or run.finished is None or not run.stats.get("tasks"):
        return None
    return run.finished - run.started
