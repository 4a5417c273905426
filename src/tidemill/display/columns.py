"""The columns of runs, blocks, events, triggers, servers, explanations, usage and storage."""

from collections.abc import Mapping
from typing import Any

from tidemill.display import formatting as fmt
from tidemill.display import table
from tidemill.display.table import Column, TableCell, show_state
from tidemill.model.access import AuditEntry
from tidemill.model.block import Block
from tidemill.model.change import Updates
from tidemill.model.quota import QuotaUsage
from tidemill.model.run import Run, RunKind, StepReport
from tidemill.model.submission import StoredDataset
from tidemill.model.units import format_size, format_span
from tidemill.model.usage import UsageFigures
from tidemill.planner import explanation
from tidemill.ports.records import (
    SILENT,
    Event,
    RegisteredTask,
    RegisteredTrigger,
    RegisteredWorkflow,
    Server,
    TriggerFiring,
)
from tidemill.runtime.oneshot.storage_report import EvictionCandidate, RetainedDataset, StorageShare
from tidemill.wire.schemas import BlockDocument, ReadingDocument

AnyBlock = Block | BlockDocument

GRACE_SECONDS = 30.0
"""Seconds that a due trigger, or a run that waits for a track, may take before it counts as late."""


def format_subject_url(run: Run) -> str:
    """The URL of a run's subject: a bound flow, or the channel of an insert or compaction; for an action, the run."""
    if run.kind is RunKind.ACTION:
        return table.format_run_url(run.id)
    return table.format_flow_url(run.subject) if run.kind is RunKind.FLOW else table.format_channel_url(run.subject)


RUN: tuple[Column[Run], ...] = (
    Column(">run", lambda r, _: table.link_run(r.id)),
    Column("kind", lambda r, _: str(r.kind)),
    Column("subject", lambda r, _: TableCell(r.subject, format_subject_url(r))),
    Column("state", lambda r, _: show_state(r.state)),
    Column(">attempt", lambda r, _: r.attempt),
    Column("when", lambda r, now: fmt.format_age(r.finished or r.started or r.created, now)),
    Column(">took", lambda r, now: fmt.format_duration(r.started, r.finished, now)),
    Column("error", lambda r, _: fmt.take_first_line(r.error)),
)


def format_origin(block: AnyBlock) -> str:
    run = "" if block.run is None else f" {block.run}"
    return f"{block.origin}{run}" + (f", {block.task}" if block.task else "")


BLOCK: tuple[Column[AnyBlock], ...] = (
    Column(">block", lambda b, _: table.link_block(b.id)),
    Column("channel", lambda b, _: table.link_channel(b.channel)),
    Column(">seq", lambda b, _: b.seq),
    Column("kind", lambda b, _: str(b.kind)),
    Column("state", lambda b, _: show_state(b.state, ", pinned" if b.pinned else "")),
    Column("made by", lambda b, _: format_origin(b)),
    Column(">rows", lambda b, _: fmt.format_count(b.rows)),
    Column(">size", lambda b, _: format_size(b.bytes)),
    Column(">files", lambda b, _: len(b.files)),
    Column(">run", lambda b, _: table.link_run(b.run)),
)

EVENT: tuple[Column[Event], ...] = (
    Column(">event", lambda e, _: e.id),
    Column("when", lambda e, now: fmt.format_age(e.at, now)),
    Column("kind", lambda e, _: e.kind),
    Column("subject", lambda e, _: e.subject),
    Column(">run", lambda e, _: table.link_run(e.run)),
    Column("detail", lambda e, _: fmt.escape_controls(_format_detail(e.detail))),
)


def _format_detail(detail: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {f'{v:.3f}' if isinstance(v, float) else v}" for name, v in detail.items())


AUDIT: tuple[Column[AuditEntry], ...] = (
    Column(">entry", lambda e, _: e.id),
    Column("when", lambda e, now: fmt.format_age(e.at, now)),
    Column("user", lambda e, _: e.user),
    Column("role", lambda e, _: e.role),
    Column("from", lambda e, _: e.address),
    Column("action", lambda e, _: fmt.escape_controls(e.action)),
    Column(">status", lambda e, _: e.outcome),
)


def is_overdue(trigger: RegisteredTrigger, now: float) -> bool:
    return not trigger.paused and trigger.due is not None and trigger.due + GRACE_SECONDS < now


def _show_due(trigger: RegisteredTrigger, now: float) -> TableCell | str | None:
    if trigger.paused:
        return show_state("paused")
    if trigger.due is None:
        return "fired, waits for other conditions" if trigger.fired is not None else "on the event"
    if is_overdue(trigger, now):
        return TableCell(f"{format_span(now - trigger.due)} late", tone="late")
    return fmt.format_age(trigger.due, now) if trigger.due > now else "now"


TRIGGER: tuple[Column[RegisteredTrigger], ...] = (
    Column("flow", lambda t, _: table.link_flow(t.flow)),
    Column("condition", lambda t, _: str(t.leaf)),
    Column("due", _show_due),
    Column(
        "pending", lambda t, _: None if t.since is None else f"{fmt.format_count(t.rows)} rows, {format_size(t.bytes)}"
    ),
    Column(">missed", lambda t, _: fmt.format_count(t.missed)),
)

FIRING: tuple[Column[TriggerFiring], ...] = (
    Column("flow", lambda f, _: table.link_flow(f.flow)),
    Column("trigger", lambda f, _: str(f.trigger)),
    Column("when", lambda f, now: fmt.format_age(f.at, now)),
    Column(">missed", lambda f, _: fmt.format_count(f.missed)),
    Column(">run", lambda f, _: table.link_run(f.run)),
)

WORKFLOW: tuple[Column[RegisteredWorkflow], ...] = (
    Column("workflow", lambda w, _: w.name),
    Column("state", lambda w, _: show_state("paused") if w.paused else TableCell("active", tone="fresh")),
    Column(">priority", lambda w, _: w.priority),
    Column("changed", lambda w, now: fmt.format_age(w.applied, now)),
)


SERVER: tuple[Column[Server], ...] = (
    Column("server", lambda s, _: s.name),
    Column("role", lambda s, _: s.role),
    Column("state", lambda s, _: TableCell(s.state, tone="failed") if s.state == SILENT else show_state(s.state)),
    Column("", lambda s, _: "leader" if s.leader else ""),
    Column(">tracks", lambda s, _: s.tracks),
    Column("started", lambda s, now: fmt.format_age(s.started, now)),
    Column("seen", lambda s, now: fmt.format_age(s.last_heartbeat, now)),
)

READ: tuple[Column[ReadingDocument], ...] = (
    Column("task", lambda r, _: r.task),
    Column("channel", lambda r, _: table.link_channel(r.channel)),
    Column("read", lambda r, _: "all of it" if r.since is None else f"after {r.since}"),
    Column(">up to", lambda r, _: r.upto),
)

STATS: tuple[Column[tuple[str, Mapping[str, Any]]], ...] = (
    Column("task", lambda s, _: s[0]),
    Column(">seconds", lambda s, _: fmt.format_seconds(s[1].get("seconds"), 3)),
    Column(">rows read", lambda s, _: fmt.format_count(s[1].get("rows_in"))),
    Column(">rows written", lambda s, _: fmt.format_count(s[1].get("rows_out"))),
)

TASK: tuple[Column[RegisteredTask], ...] = (
    Column("task", lambda t, _: t.name),
    Column("code", lambda t, _: t.code),
    Column("reads", lambda t, _: [f"{channel} ({mode})" for channel, mode in t.reads]),
    Column("writes", lambda t, _: [f"{channel} ({kind})" for channel, kind in t.writes]),
    Column("declared in", lambda t, _: t.location),
)


def format_updates(updates: Updates | explanation.StateExplanation) -> str:
    name = updates.updates if isinstance(updates, explanation.StateExplanation) else updates.name
    return f"{name} ({', '.join(updates.key)})" if updates.key else name


PLANNED_STEP: tuple[Column[explanation.PlannedStep], ...] = (
    Column("task", lambda s, _: s.task),
    Column("variant", lambda s, _: s.variant),
    Column("reads", lambda s, _: s.reads),
    Column(">seconds", lambda s, _: fmt.format_seconds(s.seconds)),
)

REJECTED_STEP: tuple[Column[explanation.RejectedStep], ...] = (
    Column("task", lambda s, _: s.task),
    Column("variant", lambda s, _: s.variant),
    Column(">seconds", lambda s, _: fmt.format_seconds(s.seconds)),
    Column("because", lambda s, _: s.reason),
)

STEP: tuple[Column[StepReport], ...] = (
    Column("step", lambda s, _: s.step),
    Column("ran on", lambda s, _: s.place),
    Column(">seconds", lambda s, _: fmt.format_seconds(s.seconds, 3)),
    Column(">rows collected", lambda s, _: fmt.format_count(s.rows)),
    Column(">bytes collected", lambda s, _: None if s.bytes is None else format_size(s.bytes)),
    Column("because", lambda s, _: s.reason),
)

STATE: tuple[Column[explanation.StateExplanation], ...] = (
    Column("channel", lambda s, _: s.channel),
    Column("updates", lambda s, _: format_updates(s)),
    Column("columns", lambda s, _: s.columns),
    Column("operator", lambda s, _: s.operator),
)


def build_variant_columns(writer: explanation.WriterExplanation) -> tuple[Column[explanation.VariantExplanation], ...]:
    def show_verdict(variant: explanation.VariantExplanation) -> TableCell | str:
        if variant.unsupported_reason:
            return f"impossible: {variant.unsupported_reason}"
        if variant.name == writer.mode:
            return TableCell("would run", tone="fresh")
        if writer.mode is None:
            return "known after apply"
        return f"possible, with run {writer.flow} --variant {variant.name}"

    return (
        Column("variant", lambda v, _: v.name),
        Column("reads", lambda v, _: [f"{channel} ({', '.join(modes)})" for channel, modes in v.reads]),
        Column("writes", lambda v, _: [f"{c} ({', '.join(filter(None, (k, updates)))})" for c, k, updates in v.writes]),
        Column(">rows", lambda v, _: fmt.format_count(v.rows)),
        Column(">seconds", lambda v, _: fmt.format_seconds(v.seconds, 1)),
        Column("now", lambda v, _: show_verdict(v)),
    )


def build_usage_columns(split: str | None) -> tuple[Column[UsageFigures], ...]:
    """The columns of usage figures; `split`: what they are split by."""
    group = () if split is None else (Column[UsageFigures](split, lambda f, _: f.group),)
    return (
        Column("from", lambda f, _: fmt.format_utc(f.begin)),
        *group,
        Column(">submissions", lambda f, _: fmt.format_count(f.submissions)),
        Column(">actions", lambda f, _: fmt.format_count(f.actions)),
        Column(">computed", lambda f, _: fmt.format_count(f.computed)),
        Column(">hits", lambda f, _: f"{f.hits} ({f.hit_rate:.0%})"),
        Column(">refreshes", lambda f, _: fmt.format_count(f.refreshes)),
        Column(">failed", lambda f, _: fmt.format_count(f.failed)),
        Column(">took", lambda f, _: format_span(f.seconds)),
        Column(">saved", lambda f, _: format_span(f.saved_seconds)),
        Column(">written", lambda f, _: format_size(f.bytes)),
    )


SHARE: tuple[Column[StorageShare], ...] = (
    Column("storage of", lambda s, _: s.content_name),
    Column(">used", lambda s, _: format_size(s.used_bytes)),
    Column(">budget", lambda s, _: None if s.budget is None else format_size(s.budget.byte_budget)),
    Column(">frees from", lambda s, _: None if s.budget is None else format_size(s.budget.byte_limit)),
)


QUOTA: tuple[Column[QuotaUsage], ...] = (
    Column("quota of", lambda u, _: u.workflow),
    Column(">tracks", lambda u, _: u.quota.tracks),
    Column(">used", lambda u, _: format_size(u.used_bytes)),
    Column(">storage", lambda u, _: None if u.quota.storage is None else format_size(u.quota.storage)),
)


def _link_dataset(dataset: StoredDataset) -> TableCell:
    url = "" if dataset.run is None else table.format_run_url(dataset.run)
    return TableCell(f"{dataset.workflow}/{dataset.name}", url)


_DATASET: tuple[Column[Any], ...] = (
    Column("identity", lambda d, _: d.dataset.identity[:12]),
    Column("dataset", lambda d, _: _link_dataset(d.dataset)),
    Column(">size", lambda d, _: format_size(d.dataset.bytes)),
)

RETAINED: tuple[Column[RetainedDataset], ...] = (
    *_DATASET,
    Column(">took", lambda d, _: format_span(d.dataset.seconds)),
    Column("used", lambda d, now: fmt.format_age(d.dataset.used_at, now)),
    Column("state", lambda d, _: str(d.dataset.state)),
    Column("retained because", lambda d, _: d.why),
)

CANDIDATE: tuple[Column[EvictionCandidate], ...] = (
    *_DATASET,
    Column(">to recompute", lambda d, _: format_span(d.seconds)),
)
