"""Values of the model as table rows. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.model.block import Block
from tidemill.model.run import Run
from tidemill.model.schema import Schema
from tidemill.planner.explanation import VariantExplanation, WriterExplanation
from tidemill.ports.records import ChannelRead, Event, RegisteredTrigger, Server, TriggerFiring
from tidemill.runtime.inspect.status import ChannelConsumer, ReflectedVersions, TaskStatus
from tidemill.ui.elements import format_channel_url, format_flow_url, format_run_url, format_subject_url
from tidemill.ui.formatting import (
    MISSING,
    format_age,
    format_cell,
    format_count,
    format_duration,
    format_size,
    format_span,
    format_utc,
    take_first_line,
    to_timestamp,
)
from tidemill.ui.health import is_overdue
from tidemill.ui.table import Row, TableCell

SILENT_SECONDS = 30.0
"""Seconds without a heartbeat after which a running server is shown as silent."""


def build_run_cell(run: int | None) -> TableCell:
    return TableCell(MISSING) if run is None else TableCell(str(run), format_run_url(run))


def build_run_row(value: Run, now: float) -> Row:
    """Columns: run, subject, kind, state, when, took, error."""
    return (
        build_run_cell(value.id),
        TableCell(value.subject, format_subject_url(value)),
        str(value.kind),
        TableCell(str(value.state), tone=str(value.state)),
        format_age(value.finished or value.started or value.created, now),
        format_duration(value.started, value.finished, now),
        take_first_line(value.error),
    )


RUN = (">run", "subject", "kind", "state", "when", ">took", "error")


def build_block_row(value: Block, visible: float | None, now: float) -> Row:
    """A block, with the time when it became visible, because derived blocks have no version."""
    return (
        str(value.seq),
        str(value.kind),
        TableCell(str(value.state) + (", pinned" if value.pinned else ""), tone=str(value.state)),
        format_count(value.rows),
        format_size(value.bytes),
        format_age(visible, now),
        f"{value.origin}" + (f", {value.task}" if value.task else ""),
        build_run_cell(value.run),
    )


BLOCK = (">seq", "kind", "state", ">rows", ">size", "visible", "origin", ">run")


def build_written_row(value: Block) -> Row:
    """A block on the page of a run."""
    channel = TableCell(value.channel, format_channel_url(value.channel))
    state = TableCell(str(value.state), tone=str(value.state))
    return (channel, str(value.seq), str(value.kind), state, format_count(value.rows), format_size(value.bytes))


WRITTEN = ("channel", ">seq", "kind", "state", ">rows", ">size")


def build_schema_rows(value: Schema | None) -> list[Row]:
    return [(f.name, f.type, "yes" if f.nullable else "no") for f in value or ()]


SCHEMA = ("column", "type", "nullable")


def build_reflected_row(value: ReflectedVersions, now: float) -> Row:
    oldest, newest = to_timestamp(value.versions[0]), to_timestamp(value.latest_version)
    return (
        " › ".join(value.pathway),
        str(len(value.versions)),
        format_utc(newest),
        format_age(newest, now),
        format_age(oldest, now),
    )


REFLECTED = ("pathway", ">versions", "newest version", "newest", "oldest")


def build_consumer_row(value: ChannelConsumer) -> Row:
    lag = (
        TableCell(f"{format_count(value.behind)} unread", tone="waiting")
        if value.behind
        else TableCell("all read", tone="fresh")
    )
    return (TableCell(value.flow, format_flow_url(value.flow)), value.task, ", ".join(value.modes), lag)


CONSUMER = ("flow", "task", "reads", "lag")


def build_task_row(value: TaskStatus, location: str) -> Row:
    reads = ", ".join(f"{c} ({m})" for c, m in value.reads)
    writes = ", ".join(f"{c} ({k})" for c, k in value.writes)
    return (value.name, value.code, reads, writes, location)


TASK = ("task", "code", "reads", "writes", "declared in")


def build_trigger_row(value: RegisteredTrigger, now: float) -> Row:
    pending = f"{format_count(value.rows)} rows, {format_size(value.bytes)}" if value.since is not None else MISSING
    return (
        TableCell(value.flow, format_flow_url(value.flow)),
        str(value.leaf),
        _build_due_cell(value, now),
        pending,
        format_count(value.missed),
    )


TRIGGER = ("flow", "condition", "due", "pending", ">missed")


def _build_due_cell(value: RegisteredTrigger, now: float) -> TableCell:
    if value.paused:
        return TableCell("paused", tone="paused")
    if is_overdue(value, now) and value.due is not None:
        return TableCell(f"{format_span(now - value.due)} late", tone="late")
    if value.due is not None:
        return TableCell(format_age(value.due, now) if value.due > now else "now")
    return TableCell("fired, waits for other conditions" if value.fired is not None else "on the event")


def build_firing_row(value: TriggerFiring, now: float) -> Row:
    flow = TableCell(value.flow, format_flow_url(value.flow))
    return (flow, str(value.trigger), format_age(value.at, now), format_count(value.missed), build_run_cell(value.run))


FIRING = ("flow", "trigger", "when", ">missed", ">run")


def build_server_row(value: Server, busy: int, now: float) -> Row:
    silent = value.state != "stopped" and value.last_heartbeat + SILENT_SECONDS < now
    state = TableCell("silent", tone="failed") if silent else TableCell(value.state, tone=value.state)
    leader = "leads" if value.leader else ""
    return (
        value.name,
        value.role,
        state,
        leader,
        f"{busy} of {value.tracks}",
        format_age(value.started, now),
        format_age(value.last_heartbeat, now),
    )


SERVER = ("server", "role", "state", "", "tracks busy", "started", "seen")


def build_event_row(value: Event, now: float) -> Row:
    detail = ", ".join(f"{name} {_format_number(item)}" for name, item in value.detail.items())
    return (
        str(value.id),
        format_age(value.at, now),
        value.kind,
        value.subject,
        build_run_cell(value.run),
        format_cell(detail),
    )


EVENT = (">event", "when", "kind", "subject", ">run", "detail")


def _format_number(value: object) -> object:
    return f"{value:.3f}" if isinstance(value, float) else value


def build_reading_row(value: ChannelRead) -> Row:
    since = "all of it" if value.since is None else f"after {value.since}"
    return (value.task, TableCell(value.channel, format_channel_url(value.channel)), since, str(value.upto))


READ = ("task", "channel", "read", ">up to")


def build_stats_rows(stats: Mapping[str, Mapping[str, object]]) -> list[Row]:
    return [
        (name, *(format_cell(s.get(key)) for key in ("seconds", "rows_in", "rows_out"))) for name, s in stats.items()
    ]


STATS = ("task", ">seconds", ">rows read", ">rows written")


def build_variant_row(value: VariantExplanation, writer: WriterExplanation) -> Row:
    reads = ", ".join(f"{channel} ({', '.join(modes)})" for channel, modes in value.reads)
    seconds = MISSING if value.seconds is None else f"{value.seconds:.1f}"
    return (value.name, reads or MISSING, format_count(value.rows), seconds, _build_verdict_cell(value, writer))


VARIANT = ("variant", "reads", ">rows", ">seconds", "now")


def _build_verdict_cell(value: VariantExplanation, writer: WriterExplanation) -> TableCell:
    if value.unsupported_reason:
        return TableCell(f"impossible: {value.unsupported_reason}")
    if value.name == writer.mode:
        return TableCell("would run", tone="fresh")
    return TableCell("possible" if writer.mode is not None else "known after apply")
