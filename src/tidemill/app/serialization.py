"""Values of the model as JSON documents. Times are ISO 8601 in UTC; versions stay the numbers that they are."""

from __future__ import annotations

from tidemill.encoding import values as cells
from tidemill.model.block import Block
from tidemill.model.codec import Json, promise_to_json, updates_to_json
from tidemill.model.freshness_target import Promise
from tidemill.model.registration import Step
from tidemill.model.run import Run
from tidemill.model.schema import Schema
from tidemill.model.submission import StoredDataset, Submission, SubmittedAction
from tidemill.model.time import Version
from tidemill.model.timestamps import iso
from tidemill.model.trigger import to_json
from tidemill.planner.catalog_state import Kept
from tidemill.ports.records import Event, Firing, Reading, RegisteredTrigger, RegisteredWorkflow, Server
from tidemill.retention.usage_history import Figures, Resolution, Split
from tidemill.runtime.freshness.staleness import Curve, History, Measure, curves, measured, total
from tidemill.runtime.inspect.block_trace import Source, Trace
from tidemill.runtime.inspect.lineage import Lineage, Relative
from tidemill.runtime.inspect.status import ChannelStatus, Consumer, FlowStatus, Reflected, Status, TaskStatus
from tidemill.runtime.oneshot.storage_report import Share, Storage


def moment(version: Version | None) -> float | None:
    """The time of day, in seconds, that a version was read from the clock."""
    return None if version is None else version / 1_000_000


def schema(value: Schema | None) -> list[Json] | None:
    if value is None:
        return None
    return [{"name": f.name, "type": f.type, "nullable": f.nullable} for f in value]


def step(value: Step) -> Json:
    return {"action": str(value.action), "what": value.what, "name": value.name, "detail": value.detail}


def block(value: Block) -> Json:
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
        "visible": iso(moment(value.version)),
        "source": value.source.to_json(),
        "target": value.target.to_json(),
        "reached": value.reached.to_json(),
        "edge": iso(moment(value.edge)),
        "identity": value.identity,
        "updates": updates_to_json(value.updates),
        "schema": schema(value.schema),
    }


def run(value: Run) -> Json:
    return {
        "id": value.id,
        "kind": str(value.kind),
        "subject": value.subject,
        "state": str(value.state),
        "attempt": value.attempt,
        "owner": value.owner,
        "created": iso(value.created),
        "started": iso(value.started),
        "finished": iso(value.finished),
        "not_before": iso(value.not_before),
        "lease_until": iso(value.lease_until),
        "seconds": seconds(value),
        "error": value.error,
        "stats": dict(value.stats),
        "backfill": value.backfill,
    }


def seconds(value: Run) -> float | None:
    if value.started is None or value.finished is None:
        return None
    return round(value.finished - value.started, 3)


def reading(value: Reading) -> Json:
    return {"task": value.task, "channel": value.channel, "since": value.since, "upto": value.upto}


def event(value: Event) -> Json:
    return {
        "id": value.id,
        "at": iso(value.at),
        "kind": value.kind,
        "subject": value.subject,
        "run": value.run,
        "detail": value.detail,
    }


def reflected(value: Reflected) -> Json:
    return {
        "pathway": list(value.pathway),
        "versions": list(value.versions),
        "latest": iso(moment(value.latest)),
    }


def consumer(value: Consumer) -> Json:
    return {
        "flow": value.flow,
        "task": value.task,
        "modes": [str(m) for m in value.modes],
        "behind": value.behind,
    }


def channel(value: ChannelStatus) -> Json:
    registered = value.registered
    return {
        "name": registered.channel.name,
        "workflow": registered.workflow,
        "role": str(registered.channel.role),
        "updates": updates_to_json(registered.channel.updates),
        "schema": schema(registered.channel.schema),
        "head": registered.head.seq,
        "blocks": registered.blocks,
        "rows": value.rows,
        "rows_in_blocks": registered.rows,
        "bytes": registered.bytes,
        "reserved": registered.reserved,
        "provenance": registered.head.reached.to_json(),
        "reflects": [reflected(r) for r in value.reflects],
        "edge": iso(moment(value.edge)),
        "promise": None if value.kept is None else promise(registered.channel.promise, value.kept),
        "consumers": [consumer(c) for c in value.consumers],
    }


def promise(value: Promise, found: Kept) -> Json:
    """What is promised of a channel, and how that is kept."""
    return promise_to_json(value) | {
        "pathways": [
            {"pathway": list(p), "stale": round(stale, 3), "bound": found.bounds.get(p)}
            for p, stale in sorted(found.stale.items())
        ],
        "apart": None if found.apart is None else round(max(0.0, found.apart), 3),
        "late": found.late,
        "inconsistent": found.inconsistent,
    }


def task(value: TaskStatus) -> Json:
    return {
        "name": value.name,
        "code": value.code,
        "reads": [{"channel": c, "mode": str(m)} for c, m in value.reads],
        "writes": [{"channel": c, "kind": str(k)} for c, k in value.writes],
        "location": value.location,
    }


def flow(value: FlowStatus) -> Json:
    return {
        "name": value.name,
        "workflow": value.workflow,
        "tasks": [task(t) for t in value.tasks],
        "last_run": None if value.last is None else run(value.last),
        "waiting": list(value.waiting),
    }


def status(value: Status) -> Json:
    return {
        "channels": [channel(c) for c in value.channels],
        "flows": [flow(f) for f in value.flows],
        "active": [run(r) for r in value.active],
    }


def source(value: Source) -> Json:
    return {
        "channel": value.channel,
        "since": value.since,
        "upto": value.upto,
        "blocks": [block(b) for b in value.blocks],
        "forgotten": value.forgotten,
    }


def trace(value: Trace) -> Json:
    return {
        "block": block(value.block),
        "sources": [source(s) for s in value.sources],
        "made": [block(b) for b in value.made],
    }


def lineage(value: Lineage) -> Json:
    return {
        "channel": value.channel,
        "tag": str(value.tag),
        "relatives": [relative(r) for r in value.relatives],
    }


def relative(value: Relative) -> Json:
    row = {f.name: cells.to_json(value.row[f.name], f.parsed) for f in value.schema}
    return {"relation": str(value.relation), "channel": value.channel, "tag": str(value.tag), "row": row}


def server(value: Server) -> Json:
    return {
        "name": value.name,
        "role": value.role,
        "leader": value.leader,
        "state": value.state,
        "tracks": value.tracks,
        "started": iso(value.started),
        "seen": iso(value.seen),
    }


def trigger(value: RegisteredTrigger) -> Json:
    return {
        "id": value.id,
        "flow": value.flow,
        "trigger": value.root,
        "condition": to_json(value.leaf),
        "due": iso(value.due),
        "waiting_since": iso(value.since),
        "rows": value.rows,
        "bytes": value.bytes,
        "missed": value.missed,
        "fired": iso(value.fired),
        "paused": value.paused,
    }


def firing(value: Firing) -> Json:
    return {
        "id": value.id,
        "at": iso(value.at),
        "flow": value.flow,
        "trigger": to_json(value.trigger),
        "missed": value.missed,
        "run": value.run,
    }


def workflow(value: RegisteredWorkflow) -> Json:
    return {
        "name": value.name,
        "paused": value.paused,
        "priority": value.priority,
        "changed": iso(value.applied),
    }


def staleness(found: History, measure: Measure, since: float, now: float) -> Json:
    """How stale each table was over time, and all of them together."""
    drawn = curves(found, measure, since, now)
    return {
        "measure": str(measure),
        "since": iso(since),
        "now": iso(now),
        "tables": [_curve(c) | {"now": measured(found, c.table, measure, now)} for c in drawn],
        "total": _curve(total(drawn, found.weights)),
    }


def _curve(value: Curve) -> Json:
    points = [{"at": iso(at), "seconds": round(s, 3)} for at, s in value.points]
    return {"table": value.table, "points": points, "integral": round(value.integral, 3)}


def submission(value: Submission) -> Json:
    return {
        "id": value.id,
        "workflow": value.workflow,
        "user": value.user,
        "at": iso(value.at),
        "state": str(value.state),
        "actions": [submitted_action(a) for a in value.actions],
    }


def submitted_action(value: SubmittedAction) -> Json:
    return {
        "id": value.key,
        "name": value.name,
        "type": value.kind,
        "identity": value.identity,
        "state": str(value.state),
        "verdict": value.verdict,
        "why": value.why,
        "saved": value.saved,
        "path": value.path,
        "placed": iso(value.placed),
        "bytes": value.bytes,
        "run": None if value.run is None else run(value.run),
    }


def figures(values: list[Figures], by: Resolution, per: Split | None) -> Json:
    return {"by": str(by), "per": None if per is None else str(per), "figures": [_figures(f) for f in values]}


def _figures(value: Figures) -> Json:
    return {
        "begin": iso(value.begin),
        "of": value.of,
        "submissions": value.submissions,
        "actions": value.actions,
        "computed": value.computed,
        "hits": value.hits,
        "hit_rate": round(value.hit_rate, 4),
        "refreshes": value.refreshes,
        "failed": value.failed,
        "seconds": round(value.seconds, 3),
        "saved": round(value.saved, 3),
        "bytes": value.bytes,
    }


def storage(value: Storage, *, evicted: bool) -> Json:
    """How storage stands; `evicted`: what is going has gone."""
    return _share(value.shares.store) | {
        "workflows": [{"workflow": s.workflow} | _share(s) for s in value.shares.workflows],
        "kept": [dataset(k.dataset) | {"why": k.why} for k in value.kept],
        "evicted": evicted,
        "going": [dataset(g.dataset) | {"seconds_back": round(g.seconds, 3)} for g in value.going],
        "freed": value.freed,
        "seconds_back": round(value.seconds, 3),
        "problems": list(value.problems),
    }


def _share(value: Share) -> Json:
    budget = value.budget
    limits = {"budget": None, "limit": None} if budget is None else {"budget": budget.bytes, "limit": budget.limit}
    return {"held": value.held} | limits


def dataset(value: StoredDataset) -> Json:
    return {
        "identity": value.identity,
        "workflow": value.workflow,
        "name": value.name,
        "state": str(value.state),
        "claims": value.claims,
        "pinned": value.pinned,
        "bytes": value.bytes,
        "seconds": round(value.seconds, 3),
        "made": iso(value.made),
        "used": iso(value.used),
    }
