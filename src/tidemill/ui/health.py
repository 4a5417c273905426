"""The health of flows and channels: a state for the colour, and the reason. Pure: time is an argument."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidemill.display import columns
from tidemill.display.formatting import format_plural, take_first_line
from tidemill.model.channel import ChannelRole
from tidemill.model.run import ACTIVE_STATES, Run, RunState
from tidemill.model.units import format_span
from tidemill.runtime.inspect.status import TARGET_SLACK_SECONDS, ChannelStatus, FlowStatus
from tidemill.ui.snapshot import ProjectSnapshot


class HealthState(StrEnum):
    """The states in the order of precedence if several apply."""

    RUNNING = "running"
    PAUSED = "paused"
    FAILED = "failed"  # the last run failed
    LATE = "late"  # a trigger is overdue, a run found no track, or a freshness target is missed
    WAITING = "waiting"  # there are unread blocks
    EMPTY = "empty"  # there is no data yet
    FRESH = "fresh"  # nothing is pending


_ORDER = tuple(HealthState)
_QUIET = (HealthState.FRESH, HealthState.EMPTY)


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    state: HealthState
    reason: str


@dataclass(frozen=True, slots=True)
class ProjectHealth:
    flows: Mapping[str, HealthVerdict]
    channels: Mapping[str, HealthVerdict]


def judge_health(snapshot: ProjectSnapshot, now: float) -> ProjectHealth:
    flows: dict[str, HealthVerdict] = {}
    for flow in snapshot.status.flows:
        _judge_flow(snapshot, flow, now, flows)
    return ProjectHealth(
        flows, {c.registered.channel.name: _judge_channel(snapshot, flows, c) for c in snapshot.status.channels}
    )


def _list_flow_verdicts(snapshot: ProjectSnapshot, flow: FlowStatus, now: float) -> Iterator[HealthVerdict]:
    yield from (_judge_run(run, now) for run in snapshot.active_index[flow.name])
    if flow.workflow in snapshot.paused_workflows:
        yield HealthVerdict(HealthState.PAUSED, f"workflow {flow.workflow} is paused")
    if flow.last is not None and flow.last.state is RunState.FAILED:
        yield HealthVerdict(HealthState.FAILED, _format_failure(flow, flow.last))
    for trigger in snapshot.trigger_index[flow.name]:
        if trigger.due is not None and columns.is_overdue(trigger, now):
            yield HealthVerdict(HealthState.LATE, f"{trigger.leaf} was due {format_span(now - trigger.due)} ago")
    for channel in snapshot.written_index[flow.name]:
        yield from _list_missed_targets(channel)
    for name, blocks in snapshot.unread_index[flow.name].items():
        yield HealthVerdict(HealthState.WAITING, f"{format_plural(blocks, 'block')} on {name}")
    if flow.last is None:
        yield HealthVerdict(HealthState.EMPTY, "never run")
    yield HealthVerdict(HealthState.FRESH, "nothing is pending")


def _list_missed_targets(channel: ChannelStatus) -> Iterator[HealthVerdict]:
    status = channel.target_status
    if status is None:
        return
    for pathway in status.list_late_pathways(TARGET_SLACK_SECONDS):
        excess = status.staleness[pathway] - status.bounds[pathway]
        yield HealthVerdict(
            HealthState.LATE, f"staler than its target by {format_span(excess)}, on the pathway {' > '.join(pathway)}"
        )
    if status.is_inconsistent:
        yield HealthVerdict(HealthState.LATE, "less consistent than its target")


def _format_failure(flow: FlowStatus, run: Run) -> str:
    """Why a run failed; the page shows the task and its location elsewhere."""
    error = take_first_line(run.error)
    for task in flow.tasks:
        error = error.removeprefix(f"task {task.name} ({task.location}): ")
    return error or "no reason was given"


def _judge_run(run: Run, now: float) -> HealthVerdict:
    if run.state in ACTIVE_STATES:
        return HealthVerdict(HealthState.RUNNING, f"run {run.id}")
    since = max(run.created, run.not_before or 0.0)
    is_late = since + columns.GRACE_SECONDS < now
    reason = f"run {run.id} will be retried" if run.attempt else f"run {run.id} waits for a track"
    return HealthVerdict(HealthState.LATE if is_late else HealthState.WAITING, reason)


def _judge_flow(
    snapshot: ProjectSnapshot, flow: FlowStatus, now: float, known: dict[str, HealthVerdict]
) -> HealthVerdict:
    """A flow without pending input is still not fresh if its sources are not. Earlier verdicts are in `known`."""
    if flow.name not in known:
        known[flow.name] = verdict = _choose_verdict(_list_flow_verdicts(snapshot, flow, now))
        if verdict.state in _QUIET:
            sources = {s: _judge_flow(snapshot, f, now, known) for s, f in _list_sources(snapshot, flow)}
            stale_sources = (
                HealthVerdict(HealthState.WAITING, f"{source} is {j.state}")
                for source, j in sources.items()
                if j.state not in _QUIET
            )
            known[flow.name] = _choose_verdict((verdict, *stale_sources))
    return known[flow.name]


def _list_sources(snapshot: ProjectSnapshot, flow: FlowStatus) -> Iterator[tuple[str, FlowStatus]]:
    """The channels that a flow reads from other flows, and their writers."""
    for source in sorted({c for t in flow.tasks for c, _ in t.reads}):
        yield from ((source, writer) for writer in snapshot.writer_index[source] if writer.name != flow.name)


def _judge_channel(
    snapshot: ProjectSnapshot, flows: Mapping[str, HealthVerdict], channel: ChannelStatus
) -> HealthVerdict:
    """A channel has the health of its writers."""
    if channel.registered.channel.role is ChannelRole.INPUT:
        return _choose_verdict((*_list_input_verdicts(snapshot, channel), *_list_content_verdicts(channel)))
    writers = snapshot.writer_index[channel.registered.channel.name]
    return _choose_verdict((*(flows[w.name] for w in writers), *_list_content_verdicts(channel)))


def _list_input_verdicts(snapshot: ProjectSnapshot, channel: ChannelStatus) -> Iterator[HealthVerdict]:
    unread = max((c.behind for c in channel.consumers if c in snapshot.lagging_consumers), default=0)
    if channel.registered.reserved:
        yield HealthVerdict(HealthState.RUNNING, "an insert is in progress")
    if unread:
        yield HealthVerdict(HealthState.WAITING, f"{format_plural(unread, 'block')} unread")


def _list_content_verdicts(channel: ChannelStatus) -> Iterator[HealthVerdict]:
    if not channel.registered.head.seq:
        yield HealthVerdict(HealthState.EMPTY, "no data yet")
    yield HealthVerdict(HealthState.FRESH, "nothing is pending")


def _choose_verdict(verdicts: Iterable[HealthVerdict]) -> HealthVerdict:
    return min(verdicts, key=lambda j: _ORDER.index(j.state))
