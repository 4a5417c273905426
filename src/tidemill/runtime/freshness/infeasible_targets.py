"""Freshness targets that are infeasible according to past runs."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from tidemill.model.channel import Channel
from tidemill.model.run import Run, RunKind, RunState
from tidemill.model.targeted_workflow import find_pathways
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.catalog import RunReader

RECENT_RUNS = 10
"""Newest runs of a flow from which its duration is estimated."""


def explain_infeasible_targets(runs: RunReader, workflow: WorkflowSpec) -> Iterator[str]:
    """Explain each target whose flows, run in sequence, usually take longer than its lag."""
    for channel in workflow.channels:
        for (source, lag), passed in sorted(_group_targets(workflow, channel).items()):
            expected = sum(
                _compute_usual_seconds(runs, b.name) for b in workflow.bindings if b.written_channels & passed
            )
            if expected > lag:
                yield (
                    f"{channel.name} must reflect {source} within {lag:g} s, but refreshing it and what it derives "
                    f"from has taken about {expected:.1f} s recently; allow it more time, or refresh less of it"
                )


def _group_targets(workflow: WorkflowSpec, channel: Channel) -> dict[tuple[str, float], set[str]]:
    """Return, by input and lag, the channel and all channels that its data passes. A lag of zero is skipped."""
    targets: dict[tuple[str, float], set[str]] = {}
    for pathway in find_pathways(workflow, channel.name) if channel.freshness_target.lag else ():
        lag = channel.freshness_target.find_lag(pathway)
        if lag:
            targets.setdefault((pathway[0], lag), {channel.name}).update(pathway[1:])
    return targets


def _compute_usual_seconds(runs: RunReader, flow: str) -> float:
    """Return the median seconds of a flow's runs; zero if it never ran."""
    finished = runs.list(subject=flow, state=RunState.FINISHED, limit=RECENT_RUNS)
    durations = [seconds for run in finished if (seconds := _compute_duration(run)) is not None]
    return median(durations) if durations else 0.0


def _compute_duration(run: Run) -> float | None:
    if run.kind is not RunKind.FLOW or run.started is None or run.finished is None or not run.stats.get("tasks"):
        return None
    return run.finished - run.started
