"""Advice on a workflow from past runs: infeasible freshness targets, and refresh groups that would save time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from tidemill.model.channel import Channel
from tidemill.model.flow import BoundFlow
from tidemill.model.run import RunKind, RunState
from tidemill.model.targeted_workflow import find_pathways
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.refresh_groups import GroupMember, propose_group
from tidemill.ports.catalog import CatalogReader, RunQueries, ServerQueries
from tidemill.ports.records import FlowStatistics

RECENT_RUNS = 10
"""Newest runs of a flow from which its duration is estimated."""


def explain_infeasible_targets(runs: RunQueries, workflow: WorkflowSpec) -> Iterator[str]:
    """Explain each target whose flows, run in sequence, usually take longer than its lag."""
    for channel in workflow.channels:
        for (source, lag), passed in sorted(_group_targets(workflow, channel).items()):
            flows = [b.name for b in workflow.bindings if b.written_channels & passed]
            expected = sum(_compute_usual_seconds(runs, flow) for flow in flows)
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


def _compute_usual_seconds(runs: RunQueries, flow: str) -> float:
    """Return the median seconds of a flow's runs; zero if it never ran."""
    finished = runs.list(subject=flow, state=RunState.FINISHED, limit=RECENT_RUNS)
    refreshes = [run for run in finished if run.kind is RunKind.FLOW and run.stats.get("tasks")]
    durations = [
        run.finished - run.started for run in refreshes if run.started is not None and run.finished is not None
    ]
    return median(durations) if durations else 0.0


def advise_refresh_group(catalog: CatalogReader, workflows: Sequence[WorkflowSpec], flow: BoundFlow) -> str | None:
    """Advise whether one run for a flow and its candidates for a group would be better, and why."""
    workflow = next(w for w in workflows if flow in w.bindings)
    statistics = catalog.flows.read_statistics()
    members = [member for b in _find_candidates(workflow, flow) for member in _build_member(statistics.get(b.name))]
    if len(members) < 2 or flow.name not in {m.flow for m in members}:
        return None
    return str(propose_group(members, _sum_waiting_priorities(catalog.servers, statistics, {m.flow for m in members})))


def _find_candidates(workflow: WorkflowSpec, flow: BoundFlow) -> list[BoundFlow]:
    """Find flows to merge with a flow: none that is planned by a freshness target, none that reads another's output."""
    targeted = {c.name for c in workflow.channels if c.freshness_target}
    similar = [
        b
        for b in workflow.bindings
        if flow.triggers
        and set(b.triggers) == set(flow.triggers)
        and b.read_channels & flow.read_channels
        and not b.written_channels & targeted
        and all(t.refresh is not None for t in b.tasks)
    ]
    outputs = frozenset[str]().union(*(b.written_channels for b in similar))
    return [b for b in similar if not (b.read_channels - b.written_channels) & outputs]


def _build_member(statistics: FlowStatistics | None) -> Iterable[GroupMember]:
    if statistics is not None and statistics.seconds is not None and statistics.overhead_seconds is not None:
        overhead = max(0.0, statistics.overhead_seconds)
        yield GroupMember(statistics.flow, statistics.seconds, overhead, statistics.priority)


def _sum_waiting_priorities(
    servers: ServerQueries, statistics: Mapping[str, FlowStatistics], members: set[str]
) -> float:
    """Sum the priorities of the other flows that wait for the same track; zero while the tracks keep up."""
    tracks = max(1, sum(s.tracks for s in servers.list() if s.state == "serving"))
    loads = (f.seconds / max(f.period, f.seconds) for f in statistics.values() if f.seconds and f.period)
    return (
        0.0 if sum(loads) < tracks else sum(f.priority for f in statistics.values() if f.flow not in members) / tracks
    )
