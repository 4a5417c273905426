"""Triggers in the catalog: an event makes its triggers due in the same transaction, and a firing creates a run.

So no firing is lost between two transactions, none is handled twice, and a scheduler tick reads only due triggers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, case, delete, func, insert, literal, or_, select, update

from tidemill.catalog.database import CatalogPart, in_snapshot, in_transaction
from tidemill.catalog.events import EventKind
from tidemill.catalog.rows import AnyRow, build_reader
from tidemill.catalog.tables import IS_ARMED, IS_RUNNABLE_FLOW, bindings, firings, runs, triggers, workflows
from tidemill.catalog.transaction import Transaction
from tidemill.model import trigger
from tidemill.model.codec import Json
from tidemill.model.run import RunKind, RunState
from tidemill.ports.records import RegisteredTrigger, TriggerFiring

RETRY_SECONDS = 60.0
"""Seconds after which the work of a failed run is due again; doubled after each further failure."""

MAX_RETRY_SECONDS = 600.0
"""The greatest number of seconds after which the work of a failed run is due again."""

LEAD_FACTOR = 1.5
"""The next plan starts this multiple of the last plan's duration before a freshness target would be missed."""


class SqlTriggerCatalog(CatalogPart):
    """A `TriggerCatalog` over SQL."""

    @in_snapshot
    def list_firings(self, connection: Connection, flow: str | None = None, limit: int = 100) -> list[TriggerFiring]:
        query = select(firings).order_by(firings.c.id.desc()).limit(limit)
        rows = connection.execute(query if flow is None else query.where(firings.c.flow == flow))
        return [TriggerFiring(r.id, r.at, r.flow, trigger.from_json(r.trigger), r.missed, r.run_id) for r in rows]

    @in_snapshot
    def list_due(self, connection: Connection, limit: int = 100) -> list[int]:
        is_due = (IS_ARMED, triggers.c.due <= self.database.read_time_with(connection))
        query = select(triggers.c.id).where(*is_due).order_by(triggers.c.due).limit(limit)
        return list(connection.execute(query).scalars())

    @in_transaction
    def fire(self, tx: Transaction, leaf: int) -> int | None:
        leaves = _lock_trigger_leaves(tx, leaf)
        leaf_row = next((row for row in leaves if row.id == leaf), None)
        if leaf_row is None or leaf_row.due is None or leaf_row.due > tx.now or leaf_row.paused:
            return None
        next_due, missed = trigger.find_next_due(_parse_leaf(leaf_row.spec), leaf_row.due, tx.now)
        missed += leaf_row.missed
        leaf_state = {"due": next_due, "rows": 0, "bytes": 0, "since": None, "fired": tx.now, "missed": missed}
        tx.execute(update(triggers).where(triggers.c.id == leaf).values(leaf_state))
        spec = tx.execute(select(bindings.c.spec).where(bindings.c.id == leaf_row.binding_id)).scalar_one()
        declared = trigger.from_json(spec["triggers"][leaf_row.root])
        fired = {tuple(row.path) for row in leaves if row.fired is not None or row.id == leaf}
        if not trigger.is_satisfied(declared, fired):
            return None
        all_missed = missed + sum(row.missed for row in leaves if row.id != leaf)
        same_trigger = (triggers.c.binding_id == leaf_row.binding_id, triggers.c.root == leaf_row.root)
        tx.execute(update(triggers).where(*same_trigger).values(fired=None, missed=0))
        return _record_firing(tx, leaf_row, declared, all_missed)

    @in_transaction
    def set_freshness_deadline(self, tx: Transaction, flow: str, at: float) -> None:
        trigger_ids = _list_freshness_triggers(tx, flow)
        is_later = or_(triggers.c.due.is_(None), triggers.c.due > at)
        if trigger_ids:
            tx.execute(update(triggers).where(triggers.c.id == trigger_ids[0], is_later).values(due=at))

    @in_transaction
    def set_freshness_lead(self, tx: Transaction, flow: str, seconds: float) -> None:
        """The triggers are due earlier by `LEAD_FACTOR` times the duration, at most by half the target lag."""
        trigger_ids = _list_freshness_triggers(tx, flow)
        lead = LEAD_FACTOR * seconds
        limited = case((triggers.c.age / 2 < lead, triggers.c.age / 2), else_=literal(lead))
        if trigger_ids:
            tx.execute(update(triggers).where(triggers.c.id.in_(trigger_ids)).values(lead=limited))

    @in_snapshot
    def list(self, connection: Connection, flow: str | None = None) -> list[RegisteredTrigger]:
        query = select(triggers, bindings.c.name.label("binding")).join_from(triggers, bindings)
        query = query.order_by(bindings.c.name, triggers.c.root, triggers.c.id)
        rows = connection.execute(query if flow is None else query.where(bindings.c.name == flow))
        return [replace(_to_trigger(row), leaf=_parse_leaf(row.spec)) for row in rows]


_to_trigger = build_reader(RegisteredTrigger, flow="binding", leaf="spec", lead_seconds="lead")


def register_triggers(tx: Transaction, binding_id: int, workflow: str, declared: Iterable[trigger.Trigger]) -> None:
    """Replace the flow's triggers by the declared ones. A trigger that was declared before keeps its state."""
    paused = tx.execute(select(workflows.c.paused).where(workflows.c.name == workflow)).scalar_one()
    of_binding = triggers.c.binding_id == binding_id
    rows = tx.execute(select(triggers).where(of_binding).with_for_update())
    states = {_format_leaf_key(row._mapping): {name: row._mapping[name] for name in _LEAF_STATE} for row in rows}
    tx.execute(delete(triggers).where(of_binding))
    for root, compound in enumerate(declared):
        for path, leaf in trigger.list_leaves(compound):
            values = _build_leaf_values(root, path, leaf)
            state = states.get(_format_leaf_key(values)) or {"due": trigger.find_first_due(leaf, tx.now)}
            tx.execute(insert(triggers).values(values | state | {"binding_id": binding_id, "paused": paused}))


def record_arrival(tx: Transaction, channel: str, rows: int, size: int) -> None:
    """Record that data became visible on a channel: its triggers become due, or closer to their minimums."""
    more_rows, more_bytes = triggers.c.rows + rows, triggers.c.bytes + size
    since = func.coalesce(triggers.c.since, tx.now)
    has_no_minimum = triggers.c.min_rows.is_(None) & triggers.c.min_bytes.is_(None) & triggers.c.age.is_(None)
    is_due = or_(has_no_minimum, more_rows >= triggers.c.min_rows, more_bytes >= triggers.c.min_bytes)
    age_due = since + triggers.c.age - triggers.c.lead
    due = case(
        (triggers.c.due <= tx.now, triggers.c.due),
        (is_due, literal(tx.now)),
        (triggers.c.due < age_due, triggers.c.due),
        else_=age_due,
    )
    changes = {"rows": more_rows, "bytes": more_bytes, "since": since, "due": due}
    tx.execute(update(triggers).where(triggers.c.channel == channel).values(changes))


def record_run_state(tx: Transaction, run: AnyRow, milestone: trigger.RunMilestone) -> None:
    """Record a milestone of a flow's run: the triggers that wait for it become due."""
    if run.kind != RunKind.FLOW:
        return
    if milestone is trigger.RunMilestone.FAILED:
        _retry_freshness_targets(tx, run.subject)
    missed = case((triggers.c.due.is_not(None), triggers.c.missed + 1), else_=triggers.c.missed)
    conditions = (triggers.c.flow == run.subject, triggers.c.milestone == milestone)
    due = func.coalesce(triggers.c.due, tx.now)
    tx.execute(update(triggers).where(*conditions).values(due=due, missed=missed))


def replace_ended_run(tx: Transaction, run: AnyRow) -> None:
    """Request another run in place of one that ended without a fault of its tasks; it takes over the firings.

    If only freshness targets requested the run, they are due again instead. A run without firings continues one that
    left data unread (it has a due time), or was requested by a caller, who gets the error.
    """
    fired_triggers = tx.execute(select(firings.c.trigger).where(firings.c.run_id == run.id)).scalars().all()
    is_continuation = not fired_triggers and run.due is not None
    if not is_continuation and all(isinstance(trigger.from_json(t), trigger.LagTrigger) for t in fired_triggers):
        if fired_triggers:
            _retry_freshness_targets(tx, run.subject)
        return
    not_before = tx.now + _compute_failure_delay(tx, run.subject)
    new_run = ensure_pending_run(tx, run.subject, due=run.due or run.created, not_before=not_before)
    tx.execute(update(firings).where(firings.c.run_id == run.id).values(run_id=new_run))


def _compute_failure_delay(tx: Transaction, flow: str) -> float:
    """Seconds to wait after a failure: exponential back-off in the failures since the flow last finished."""
    of_flow = (runs.c.subject == flow, runs.c.kind == RunKind.FLOW)
    finished = select(func.coalesce(func.max(runs.c.id), 0)).where(*of_flow, runs.c.state == RunState.FINISHED)
    is_later = runs.c.id > finished.scalar_subquery()
    query = select(func.count()).select_from(runs).where(*of_flow, runs.c.state == RunState.FAILED, is_later)
    failures: int = tx.execute(query).scalar_one()
    return float(min(MAX_RETRY_SECONDS, RETRY_SECONDS * 2 ** max(0, min(failures, 20) - 1)))


def _retry_freshness_targets(tx: Transaction, flow: str) -> None:
    """Make the freshness triggers of a failed run's flow due again after a back-off."""
    trigger_ids = _list_freshness_triggers(tx, flow)
    retry_time = tx.now + _compute_failure_delay(tx, flow)
    is_later = or_(triggers.c.due.is_(None), triggers.c.due > retry_time)
    if trigger_ids:
        tx.execute(update(triggers).where(triggers.c.id.in_(trigger_ids), is_later).values(due=retry_time))


def _list_freshness_triggers(tx: Transaction, flow: str) -> list[int]:
    query = select(triggers.c.id, triggers.c.spec).join_from(triggers, bindings).where(bindings.c.name == flow)
    return [row.id for row in tx.execute(query) if isinstance(trigger.from_json(row.spec), trigger.LagTrigger)]


def _lock_trigger_leaves(tx: Transaction, leaf: int) -> list[AnyRow]:
    """Lock the leaves of the same trigger, so that two servers cannot complete a compound at the same time."""
    position = select(triggers.c.binding_id, triggers.c.root).where(triggers.c.id == leaf).subquery()
    query = select(triggers).where(triggers.c.binding_id == position.c.binding_id, triggers.c.root == position.c.root)
    return list(tx.execute(query.order_by(triggers.c.id).with_for_update(of=triggers)))


def _record_firing(tx: Transaction, leaf: AnyRow, fired: trigger.Trigger, missed: int) -> int:
    """Record a firing; returns the run that handles it."""
    query = select(bindings.c.name).where(bindings.c.id == leaf.binding_id)
    flow: str = tx.execute(query).scalar_one()
    run = ensure_pending_run(tx, flow)
    values = {"at": tx.now, "flow": flow, "trigger": trigger.to_json(fired), "missed": missed, "run_id": run}
    tx.execute(insert(firings).values(values))
    tx.record_event(EventKind.TRIGGER_FIRED, flow, run, trigger=str(fired), missed=missed)
    return run


def ensure_pending_run(tx: Transaction, flow: str, *, due: float | None = None, not_before: float | None = None) -> int:
    """Request a run of a flow: one that is pending, else a new one; returns its id.

    A pending backfill does not count, since live data do not wait for it. `due`: since when there are data to read.
    `not_before`: when a new run may be claimed. A pending run that replaces a failed one becomes ready at once.
    """
    is_live = (IS_RUNNABLE_FLOW, runs.c.subject == flow, runs.c.backfill.is_(False))
    query = select(runs.c.id, runs.c.attempt).where(*is_live).order_by(runs.c.id).limit(1)
    pending = tx.execute(query.with_for_update()).one_or_none()
    if pending is None:
        return _create_run(tx, flow, due, not_before)
    changes: Json = {"requested": tx.now} | ({} if due is None else {"due": due})
    if pending.attempt == 0:
        changes |= {"state": RunState.READY, "not_before": None}
    tx.execute(update(runs).where(runs.c.id == pending.id).values(changes))
    run: int = pending.id
    return run


def _create_run(tx: Transaction, flow: str, due: float | None, not_before: float | None) -> int:
    spec = tx.execute(select(bindings.c.spec).where(bindings.c.name == flow)).scalar_one()
    attempts = spec.get("attempts", 1)
    state = RunState.READY if not_before is None else RunState.WAITING
    values = {"kind": RunKind.FLOW, "subject": flow, "state": state, "attempts": attempts, "created": tx.now}
    times = {"due": due, "not_before": not_before}
    run: int = tx.execute(insert(runs).values(values | times).returning(runs.c.id)).scalar_one()
    tx.record_event(EventKind.RUN_REQUESTED, flow, run, kind=RunKind.FLOW, attempts=attempts)
    return run


def _build_leaf_values(root: int, path: Sequence[int], leaf: trigger.Leaf) -> Json:
    values: Json = {"root": root, "path": list(path), "spec": trigger.to_json(leaf)}
    match leaf:
        case trigger.DataTrigger():
            limits = {"min_rows": leaf.rows, "min_bytes": leaf.bytes, "age": leaf.age}
            return values | {"channel": leaf.channel} | limits
        case trigger.LagTrigger():
            return values | {"channel": leaf.channel, "age": leaf.seconds}
        case trigger.RunTrigger():
            return values | {"flow": leaf.flow, "milestone": leaf.reached}
        case _:
            return values


def _parse_leaf(spec: Json) -> trigger.Leaf:
    leaf = trigger.from_json(spec)
    assert not isinstance(leaf, trigger.AllOfTrigger)
    return leaf


def _format_leaf_key(values: Mapping[Any, Any]) -> str:
    return f"{values['root']} {values['path']} {sorted(values['spec'].items())}"


_LEAF_STATE = ("rows", "bytes", "since", "due", "missed", "fired", "lead")
