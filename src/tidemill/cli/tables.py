"""Renders values of the model as tables for people. `now` is an argument: times are shown relative to it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from tidemill.cli.formatting import (
    NONE,
    format_age,
    format_count,
    format_duration,
    format_plural,
    format_size,
    to_timestamp,
)
from tidemill.cli.output import build_table
from tidemill.model.block import Block, BlockState
from tidemill.model.change import Updates
from tidemill.model.channel import Channel
from tidemill.model.registration import ChangeKind, RegistrationChange
from tidemill.model.run import Run, RunState
from tidemill.model.time import Version
from tidemill.planner.catalog_state import TargetStatus
from tidemill.ports.records import Event
from tidemill.runtime.freshness.staleness import (
    StalenessHistory,
    StalenessMeasure,
    compute_curves,
    measure_staleness,
    sum_curves,
)
from tidemill.runtime.inspect.statistics import TaskStatistics
from tidemill.runtime.inspect.status import ChannelConsumer, ChannelStatus, FlowStatus, ReflectedVersions, TaskStatus

_STYLES = {
    ChangeKind.ADD: "green",
    ChangeKind.CHANGE: "yellow",
    ChangeKind.REMOVE: "red",
    RunState.CLAIMED: "cyan",
    RunState.SUBMITTED: "cyan",
    RunState.RUNNING: "cyan",
    RunState.FINISHED: "green",
    RunState.FAILED: "red",
    RunState.KILLED: "red",
    BlockState.RESERVED: "cyan",
    BlockState.CANCELLED: "red",
    BlockState.COLLECTED: "dim",
}


def style_state(value: ChangeKind | RunState | BlockState) -> Text:
    return Text(str(value), style=_STYLES.get(value, ""))


def render_steps(values: Iterable[RegistrationChange]) -> RenderableType:
    rows = ([style_state(s.action), s.noun, s.name, s.detail] for s in values)
    return build_table("", ("", "what", "name", "detail"), rows, empty="nothing to change")


def render_channels(values: Iterable[ChannelStatus], now: float) -> RenderableType:
    headings = (
        "channel",
        "role",
        "updates",
        ">head",
        ">rows",
        ">blocks",
        ">rows in blocks",
        ">size",
        "reflects",
        "consumers",
    )
    return build_table(
        "channels", headings, (_build_channel_row(c, now) for c in values), empty="none; tidemill apply registers them"
    )


def _build_channel_row(value: ChannelStatus, now: float) -> list[object]:
    registered = value.registered
    return [
        registered.channel.name,
        registered.channel.role,
        format_updates(registered.channel.updates),
        format_count(registered.head.seq),
        NONE if value.rows is None else format_count(value.rows),
        format_count(registered.blocks),
        format_count(registered.rows),
        format_size(registered.bytes),
        [format_reflected_versions(r, now) for r in value.reflects] + _format_watermark(value.watermark, now),
        [format_consumer(c) for c in value.consumers],
    ]


def _format_watermark(watermark: Version | None, now: float) -> list[str]:
    return [] if watermark is None else [f"event time: watermark {format_age(to_timestamp(watermark), now)}"]


def render_targets(values: Iterable[ChannelStatus]) -> RenderableType:
    rows = (
        row
        for c in values
        if c.target_status is not None
        for row in _build_target_rows(c.registered.channel, c.target_status)
    )
    return build_table("freshness targets", ("channel", "measure", ">actual", ">target", "met"), rows, empty="none")


def _build_target_rows(channel: Channel, status: TargetStatus) -> Iterable[list[object]]:
    for pathway, staleness in sorted(status.staleness.items()):
        bound = status.bounds.get(pathway)
        verdict = NONE if bound is None else _format_verdict(staleness <= bound, "late")
        yield [
            channel.name,
            f"staleness by {' > '.join(pathway)}",
            _format_seconds(staleness),
            _format_seconds(bound),
            verdict,
        ]
    if status.consistency is not None and status.inconsistency is not None:
        inconsistency, bound = max(0.0, status.inconsistency), status.consistency
        target = _format_seconds(bound) if bound else "strict"
        yield [
            channel.name,
            "inconsistency",
            _format_seconds(inconsistency),
            target,
            _format_verdict(not status.is_inconsistent, "missed"),
        ]
    if not status.staleness:
        yield [channel.name, "staleness", "never written", NONE, NONE]


def _format_verdict(is_met: bool, problem: str) -> Text:
    return Text("yes", style="green") if is_met else Text(problem, style="red")


def format_updates(value: Updates) -> str:
    return f"{value.name} ({', '.join(value.key)})" if value.key else value.name


def format_reflected_versions(value: ReflectedVersions, now: float) -> str:
    return f"{' > '.join(value.pathway)}: {format_age(to_timestamp(value.latest_version), now)}"


def format_consumer(value: ChannelConsumer) -> str:
    name = value.flow if value.flow == value.task else f"{value.flow}/{value.task}"
    behind = f"{format_plural(value.behind, 'block')} behind" if value.behind else "up to date"
    return f"{name} ({', '.join(value.modes)}): {behind}"


def render_staleness(history: StalenessHistory, since: float, now: float) -> RenderableType:
    worst = {
        c.table: max(value for _, value in c.points)
        for c in compute_curves(history, StalenessMeasure.STALENESS, since, now)
    }
    rows = (
        [name, *_format_measures(history, name, now), _format_seconds(worst.get(name))]
        for name in sorted(history.provenance)
    )
    return build_table("staleness", ("table", ">staleness", ">age", ">recent worst"), rows, empty="no table yet")


def format_weighted_staleness(history: StalenessHistory, since: float, now: float) -> str:
    """Format the staleness of all tables, weighted by priority: now, and on average over time."""
    summed = sum_curves(compute_curves(history, StalenessMeasure.STALENESS, since, now), history.weights)
    if not summed.points:
        return "all tables by priority: nothing yet"
    latest, mean = summed.points[-1][1], summed.integral / (now - since)
    return f"all tables by priority: {format_duration(0.0, latest)} now, {format_duration(0.0, mean)} recent average"


def _format_measures(history: StalenessHistory, name: str, now: float) -> list[str]:
    return [
        _format_seconds(measure_staleness(history, name, measure, now))
        for measure in (StalenessMeasure.STALENESS, StalenessMeasure.AGE)
    ]


def _format_seconds(value: float | None) -> str:
    return NONE if value is None else format_duration(0.0, value)


def render_statistics(values: Iterable[TaskStatistics]) -> RenderableType:
    headings = ("flow", "task", ">priority", ">seconds", ">selectivity", ">rows in/s", ">rows out/s", ">pending")
    return build_table(
        "tasks", headings, (_build_statistics_row(s) for s in values), empty="none; tidemill apply registers them"
    )


def _build_statistics_row(value: TaskStatistics) -> list[object]:
    figures = (value.seconds, value.selectivity, value.input_rate, value.output_rate)
    shown = [NONE if f is None else f"{f:.3g}" for f in figures]
    return [value.flow, value.task, f"{value.priority:g}", *shown, format_plural(value.queue, "block")]


def render_flows(values: Iterable[FlowStatus], now: float) -> RenderableType:
    headings = ("flow", "tasks", "last run", "state", "when", ">took", "new data")
    return build_table(
        "flows", headings, (_build_flow_row(f, now) for f in values), empty="none; tidemill apply registers them"
    )


def _build_flow_row(value: FlowStatus, now: float) -> list[object]:
    last = value.last
    pending = f"pending on {', '.join(value.pending_channels)}" if value.pending_channels else "none"
    run = (
        [NONE, "never run", NONE, NONE]
        if last is None
        else [last.id, style_state(last.state), format_run_age(last, now), format_run_duration(last)]
    )
    return [value.name, [t.name for t in value.tasks], *run, pending]


def render_tasks(values: Iterable[FlowStatus]) -> RenderableType:
    headings = ("flow", "task", "code", "reads", "writes", "declared in")
    return build_table("tasks", headings, ([f.name, *_build_task_row(t)] for f in values for t in f.tasks))


def _build_task_row(value: TaskStatus) -> list[object]:
    reads = [f"{channel} ({mode})" for channel, mode in value.reads]
    writes = [f"{channel} ({kind})" for channel, kind in value.writes]
    return [value.name, value.code, reads, writes, value.location]


def render_runs(title: str, values: Iterable[Run], now: float, *, empty: str = "none") -> RenderableType:
    headings = (">run", "kind", "subject", "state", ">attempt", "when", ">took", "error")
    return build_table(title, headings, (_build_run_row(r, now) for r in values), empty=empty)


def _build_run_row(value: Run, now: float) -> list[object]:
    error = (value.error or "").partition("\n")[0]
    cells = [value.id, value.kind, value.subject, style_state(value.state), value.attempt]
    return [*cells, format_run_age(value, now), format_run_duration(value), error]


def format_run_age(value: Run, now: float) -> str:
    return format_age(value.finished or value.started or value.created, now)


def format_run_duration(value: Run) -> str:
    return format_duration(value.started, value.finished)


def render_blocks(title: str, values: Iterable[Block], now: float, *, empty: str = "none") -> RenderableType:
    headings = (">block", "channel", ">seq", "kind", "state", "made by", ">rows", ">size", ">files", "visible")
    return build_table(title, headings, (_build_block_row(b, now) for b in values), empty=empty)


def _build_block_row(value: Block, now: float) -> list[object]:
    # A derived block has no version: it is as new as the newest input that it reflects.
    visible = format_age(to_timestamp(value.version), now) if value.version is not None else NONE
    return [
        value.id,
        value.channel,
        value.seq,
        value.kind,
        style_state(value.state) + (", pinned" if value.pinned else ""),
        format_origin(value),
        format_count(value.rows),
        format_size(value.bytes),
        len(value.files),
        visible,
    ]


def format_origin(value: Block) -> str:
    run = "" if value.run is None else f" {value.run}"
    return f"{value.origin}{run}" + (f", {value.task}" if value.task else "")


def render_events(values: Iterable[Event], now: float) -> RenderableType:
    headings = (">event", "when", "kind", "subject", ">run", "detail")
    rows = ([e.id, format_age(e.at, now), e.kind, e.subject, e.run, _format_detail(e)] for e in values)
    return build_table("", headings, rows, empty="no events")


def _format_detail(event: Event) -> str:
    return ", ".join(f"{name} {_format_number(value)}" for name, value in event.detail.items())


def _format_number(value: object) -> object:
    return f"{value:.3f}" if isinstance(value, float) else value
