"""Values of the model as JSON documents. Times are ISO 8601 in UTC; versions are numbers."""

from __future__ import annotations

from tidemill.encoding import values as cells
from tidemill.model.block import Block
from tidemill.model.codec import Json, target_to_json, updates_to_json
from tidemill.model.freshness_target import FreshnessTarget
from tidemill.model.registration import RegistrationChange
from tidemill.model.run import Run
from tidemill.model.schema import Schema
from tidemill.model.submission import StoredDataset, Submission, SubmittedAction
from tidemill.model.time import Version
from tidemill.model.timestamps import format_iso
from tidemill.model.trigger import to_json
from tidemill.planner.catalog_state import TargetStatus
from tidemill.ports.records import ChannelRead, Event, RegisteredTrigger, RegisteredWorkflow, Server, TriggerFiring
from tidemill.retention.usage_history import TimeResolution, UsageFigures, UsageSplit
from tidemill.runtime.freshness.staleness import (
    StalenessCurve,
    StalenessHistory,
    StalenessMeasure,
    compute_curves,
    measure_staleness,
    sum_curves,
)
from tidemill.runtime.inspect.block_trace import BlockTrace, TraceSource
from tidemill.runtime.inspect.lineage import EventLineage, LineageRow
from tidemill.runtime.inspect.status import (
    ChannelConsumer,
    ChannelStatus,
    FlowStatus,
    ProjectStatus,
    ReflectedVersions,
    TaskStatus,
)
from tidemill.runtime.oneshot.storage_report import StorageReport, StorageShare


def to_timestamp(version: Version | None) -> float | None:
    """A version as seconds since the epoch."""
    return None if version is None else version / 1_000_000


def serialize_schema(value: Schema | None) -> list[Json] | None:
    if value is None:
        return None
    return [{"name": f.name, "type": f.type, "nullable": f.nullable} for f in value]


def serialize_step(value: RegistrationChange) -> Json:
    return {"action": str(value.action), "what": value.noun, "name": value.name, "detail": value.detail}


def serialize_block(value: Block) -> Json:
    return {
        "id": value.id,
        "channel": value.channel,
        "seq": value.seq,
        "kind": str(value.kind),
        "since": value.since,
        "state": str(value.state),
        "pinned": value.pinned,
        "origin": str(value.origin),
        "run": value.run,
        "task": value.task,
        "rows": value.rows,
        "bytes": value.bytes,
        "files": [{"path": f.path, "rows": f.rows, "bytes": f.bytes} for f in value.files],
        "version": value.version,
        "visible": format_iso(to_timestamp(value.version)),
        "source": value.source.to_json(),
        "target": value.target.to_json(),
        "channel_provenance": value.channel_provenance.to_json(),
        "watermark": format_iso(to_timestamp(value.watermark)),
        "identity": value.identity,
        "updates": updates_to_json(value.updates),
        "schema": serialize_schema(value.schema),
    }


def serialize_run(value: Run) -> Json:
    return {
        "id": value.id,
        "kind": str(value.kind),
        "subject": value.subject,
        "state": str(value.state),
        "attempt": value.attempt,
        "owner": value.owner,
        "created": format_iso(value.created),
        "started": format_iso(value.started),
        "finished": format_iso(value.finished),
        "not_before": format_iso(value.not_before),
        "lease_until": format_iso(value.lease_until),
        "seconds": compute_duration(value),
        "error": value.error,
        "stats": dict(value.stats),
        "backfill": value.backfill,
    }


def compute_duration(value: Run) -> float | None:
    if value.started is None or value.finished is None:
        return None
    return round(value.finished - value.started, 3)


def serialize_reading(value: ChannelRead) -> Json:
    return {"task": value.task, "channel": value.channel, "since": value.since, "upto": value.upto}


def serialize_event(value: Event) -> Json:
    return {
        "id": value.id,
        "at": format_iso(value.at),
        "kind": value.kind,
        "subject": value.subject,
        "run": value.run,
        "detail": value.detail,
    }


def serialize_reflected_versions(value: ReflectedVersions) -> Json:
    return {
        "pathway": list(value.pathway),
        "versions": list(value.versions),
        "latest": format_iso(to_timestamp(value.latest_version)),
    }


def serialize_consumer(value: ChannelConsumer) -> Json:
    return {
        "flow": value.flow,
        "task": value.task,
        "modes": [str(m) for m in value.modes],
        "behind": value.behind,
    }


def serialize_channel(value: ChannelStatus) -> Json:
    registered = value.registered
    return {
        "name": registered.channel.name,
        "workflow": registered.workflow,
        "role": str(registered.channel.role),
        "updates": updates_to_json(registered.channel.updates),
        "schema": serialize_schema(registered.channel.schema),
        "head": registered.head.seq,
        "blocks": registered.blocks,
        "rows": value.rows,
        "rows_in_blocks": registered.rows,
        "bytes": registered.bytes,
        "reserved": registered.reserved,
        "provenance": registered.head.provenance.to_json(),
        "reflects": [serialize_reflected_versions(r) for r in value.reflects],
        "watermark": format_iso(to_timestamp(value.watermark)),
        "freshness_target": None
        if value.target_status is None
        else serialize_target(registered.channel.freshness_target, value.target_status),
        "consumers": [serialize_consumer(c) for c in value.consumers],
    }


def serialize_target(value: FreshnessTarget, status: TargetStatus) -> Json:
    """A channel's freshness target and its status."""
    return target_to_json(value) | {
        "pathways": [
            {"pathway": list(p), "staleness": round(stale, 3), "target_lag": status.bounds.get(p)}
            for p, stale in sorted(status.staleness.items())
        ],
        "inconsistency": None if status.inconsistency is None else round(max(0.0, status.inconsistency), 3),
        "is_late": status.is_late,
        "is_inconsistent": status.is_inconsistent,
    }


def serialize_task(value: TaskStatus) -> Json:
    return {
        "name": value.name,
        "code": value.code,
        "reads": [{"channel": c, "mode": str(m)} for c, m in value.reads],
        "writes": [{"channel": c, "kind": str(k)} for c, k in value.writes],
        "location": value.location,
    }


def serialize_flow(value: FlowStatus) -> Json:
    return {
        "name": value.name,
        "workflow": value.workflow,
        "tasks": [serialize_task(t) for t in value.tasks],
        "last_run": None if value.last is None else serialize_run(value.last),
        "pending_channels": list(value.pending_channels),
    }


def serialize_status(value: ProjectStatus) -> Json:
    return {
        "channels": [serialize_channel(c) for c in value.channels],
        "flows": [serialize_flow(f) for f in value.flows],
        "active": [serialize_run(r) for r in value.active],
    }


def serialize_source(value: TraceSource) -> Json:
    return {
        "channel": value.channel,
        "since": value.since,
        "upto": value.upto,
        "blocks": [serialize_block(b) for b in value.blocks],
        "expired": value.expired,
    }


def serialize_trace(value: BlockTrace) -> Json:
    return {
        "block": serialize_block(value.block),
        "sources": [serialize_source(s) for s in value.sources],
        "derived": [serialize_block(b) for b in value.derived],
    }


def serialize_lineage(value: EventLineage) -> Json:
    return {
        "channel": value.channel,
        "lineage_tag": str(value.tag),
        "relatives": [serialize_lineage_row(r) for r in value.relatives],
    }


def serialize_lineage_row(value: LineageRow) -> Json:
    row = {f.name: cells.to_json(value.row[f.name], f.data_type) for f in value.schema}
    return {"relation": str(value.relation), "channel": value.channel, "lineage_tag": str(value.tag), "row": row}


def serialize_server(value: Server) -> Json:
    return {
        "name": value.name,
        "role": value.role,
        "leader": value.leader,
        "state": value.state,
        "tracks": value.tracks,
        "started": format_iso(value.started),
        "last_heartbeat": format_iso(value.last_heartbeat),
    }


def serialize_trigger(value: RegisteredTrigger) -> Json:
    return {
        "id": value.id,
        "flow": value.flow,
        "trigger": value.root,
        "condition": to_json(value.leaf),
        "due": format_iso(value.due),
        "waiting_since": format_iso(value.since),
        "rows": value.rows,
        "bytes": value.bytes,
        "missed": value.missed,
        "fired": format_iso(value.fired),
        "paused": value.paused,
    }


def serialize_firing(value: TriggerFiring) -> Json:
    return {
        "id": value.id,
        "at": format_iso(value.at),
        "flow": value.flow,
        "trigger": to_json(value.trigger),
        "missed": value.missed,
        "run": value.run,
    }


def serialize_workflow(value: RegisteredWorkflow) -> Json:
    return {
        "name": value.name,
        "paused": value.paused,
        "priority": value.priority,
        "changed": format_iso(value.applied),
    }


def serialize_staleness(history: StalenessHistory, measure: StalenessMeasure, since: float, now: float) -> Json:
    """The staleness of each table over time, and that of all tables together."""
    curves = compute_curves(history, measure, since, now)
    return {
        "measure": str(measure),
        "since": format_iso(since),
        "now": format_iso(now),
        "tables": [
            _serialize_curve(curve) | {"now": measure_staleness(history, curve.table, measure, now)} for curve in curves
        ],
        "total": _serialize_curve(sum_curves(curves, history.weights)),
    }


def _serialize_curve(value: StalenessCurve) -> Json:
    points = [{"at": format_iso(time), "seconds": round(seconds, 3)} for time, seconds in value.points]
    return {"table": value.table, "points": points, "integral": round(value.integral, 3)}


def serialize_submission(value: Submission) -> Json:
    return {
        "id": value.id,
        "workflow": value.workflow,
        "user": value.user,
        "at": format_iso(value.at),
        "state": str(value.state),
        "actions": [serialize_submitted_action(a) for a in value.actions],
    }


def serialize_submitted_action(value: SubmittedAction) -> Json:
    return {
        "id": value.key,
        "name": value.name,
        "type": value.kind,
        "identity": value.identity,
        "state": str(value.state),
        "verdict": value.verdict,
        "reason": value.reason,
        "saved_seconds": value.saved_seconds,
        "path": value.path,
        "copied_at": format_iso(value.copied_at),
        "bytes": value.bytes,
        "run": None if value.run is None else serialize_run(value.run),
    }


def serialize_usage_history(values: list[UsageFigures], by: TimeResolution, per: UsageSplit | None) -> Json:
    return {"by": str(by), "per": None if per is None else str(per), "figures": [_serialize_figures(f) for f in values]}


def _serialize_figures(value: UsageFigures) -> Json:
    return {
        "begin": format_iso(value.begin),
        "group": value.group,
        "submissions": value.submissions,
        "actions": value.actions,
        "computed": value.computed,
        "hits": value.hits,
        "hit_rate": round(value.hit_rate, 4),
        "refreshes": value.refreshes,
        "failed": value.failed,
        "seconds": round(value.seconds, 3),
        "saved_seconds": round(value.saved_seconds, 3),
        "bytes": value.bytes,
    }


def serialize_storage(value: StorageReport, *, evicted: bool) -> Json:
    """A storage report; `evicted`: the datasets listed as going have been deleted."""
    return _serialize_share(value.shares.store) | {
        "workflows": [{"workflow": share.workflow} | _serialize_share(share) for share in value.shares.workflows],
        "retained": [serialize_dataset(retained.dataset) | {"reason": retained.why} for retained in value.retained],
        "evicted": evicted,
        "evictions": [
            serialize_dataset(eviction.dataset) | {"recompute_seconds": round(eviction.seconds, 3)}
            for eviction in value.evictions
        ],
        "freed_bytes": value.freed_bytes,
        "recompute_seconds": round(value.seconds, 3),
        "problems": list(value.problems),
    }


def _serialize_share(value: StorageShare) -> Json:
    budget = value.budget
    limits = (
        {"budget": None, "limit": None}
        if budget is None
        else {"budget": budget.byte_budget, "limit": budget.byte_limit}
    )
    return {"used_bytes": value.used_bytes} | limits


def serialize_dataset(value: StoredDataset) -> Json:
    return {
        "identity": value.identity,
        "workflow": value.workflow,
        "name": value.name,
        "state": str(value.state),
        "claims": value.claims,
        "pinned": value.pinned,
        "bytes": value.bytes,
        "seconds": round(value.seconds, 3),
        "computed_at": format_iso(value.computed_at),
        "used_at": format_iso(value.used_at),
    }
