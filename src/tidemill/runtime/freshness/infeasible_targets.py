"""Promises that history says cannot be kept."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from tidemill.model.channel import Channel
from tidemill.model.run import Run, RunKind, RunState
from tidemill.model.targeted_workflow import find_pathways
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.catalog import CatalogReader

REMEMBERED = 10
"""Runs of a flow that say how long it takes."""


def explain_infeasible_targets(catalog: CatalogReader, workflow: WorkflowSpec) -> Iterator[str]:
    """For each promise whose flows, one after another, usually take longer than promised, what speaks against it."""
    for channel in workflow.channels:
        for (source, lag), passed in sorted(_group_targets(workflow, channel).items()):
            expected = sum(
                _compute_usual_seconds(catalog, b.name) for b in workflow.bindings if b.written_channels & passed
            )
            if expected > lag:
                yield (
                    f"{channel.name} must reflect {source} within {lag:g} s, but refreshing it and what it derives "
                    f"from has taken about {expected:.1f} s lately; allow it more time, or refresh less of it"
                )


def _group_targets(workflow: WorkflowSpec, channel: Channel) -> dict[tuple[str, float], set[str]]:
    """By input and lag, the channel and those by way of which data come to it. Nothing is faster than at once."""
    found: dict[tuple[str, float], set[str]] = {}
    for pathway in find_pathways(workflow, channel.name) if channel.promise.lag else ():
        lag = channel.promise.find_lag(pathway)
        if lag:
            found.setdefault((pathway[0], lag), {channel.name}).update(pathway[1:])
    return found


def _compute_usual_seconds(catalog: CatalogReader, flow: str) -> float:
    """Seconds; nothing, of a flow that never ran."""
    ended = catalog.list_runs(subject=flow, state=RunState.FINISHED, limit=REMEMBERED)
    took = [seconds for run in ended if (seconds := _compute_duration(run)) is not None]
    return median(took) if took else 0.0


def _compute_duration(run: Run) -> float | None:
    if run.kind is not RunKind.FLOW or run.started is None or run.finished is None or not run.stats.get("tasks"):
        return None
    return run.finished - run.started
