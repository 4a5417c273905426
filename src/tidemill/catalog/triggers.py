"""Triggers in the catalog: an event makes its triggers due in the same transaction, and a firing creates a run.

So no firing is lost between two transactions, none is handled twice, and a scheduler tick reads only due triggers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, case, delete, exists, func, insert, literal, or_, select, update

from tidemill.catalog.events import EventKind
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.tables import IS_ARMED, IS_IN_USE, IS_RUNNABLE_FLOW, bindings, firings, runs, triggers, workflows
from tidemill.catalog.transaction import Transaction
from tidemill.errors import NotFound
from tidemill.model.codec import Json
from tidemill.model.flow import BoundFlow
from tidemill.model.run import ACTIVE_STATES, RunKind, RunState
from tidemill.model.trigger import (
    AllOfTrigger,
    CronTrigger,
    DataTrigger,
    IntervalTrigger,
    LagTrigger,
    Leaf,
    RunMilestone,
    RunTrigger,
    Trigger,
    find_first_due,
    from_json,
    is_satisfied,
    list_leaves,
    to_json,
)

RETRY_SECONDS = 60.0
"""Seconds after which the work of a failed run is due again; doubled after each further failure."""

MAX_RETRY_SECONDS = 600.0
"""The greatest number of seconds after which the work of a failed run is due again."""

LEAD_FACTOR = 1.5
"""The next plan starts this multiple of the last plan's duration before a freshness target would be missed."""


def register_triggers(tx: Transaction, binding_id: int, binding: BoundFlow, *, paused: bool) -> None:
    """Replace the flow's triggers by the declared ones. A trigger that was declared before keeps its state."""
    of_binding = triggers.c.binding_id == binding_id
    old_rows = {
        _build_row_key(row): row for row in tx.connection.execute(select(triggers).where(of_binding).with_for_update())
    }
    leaf_values = [
        _build_leaf_values(root, path, leaf)
        for root, trigger in enumerate(binding.triggers)
        for path, leaf in list_leaves(trigger)
    ]
    tx.connection.execute(delete(triggers).where(of_binding))
    for values in leaf_values:
        old_row = old_rows.get(_format_leaf_key(values["root"], values["path"], values["spec"]))
        state = (
            _copy_leaf_state(old_row)
            if old_row is not None
            else {"due": find_first_due(_parse_leaf(values["spec"]), tx.now)}
        )
        tx.connection.execute(insert(triggers).values(values | state | {"binding_id": binding_id, "paused": paused}))


def remove_triggers(tx: Transaction, binding_id: int) -> None:
    tx.connection.execute(delete(triggers).where(triggers.c.binding_id == binding_id))


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
    tx.connection.execute(update(triggers).where(triggers.c.channel == channel).values(changes))


def record_run_state(tx: Transaction, run: AnyRow, milestone: RunMilestone) -> None:
    """Record a milestone of a flow's run: the triggers that wait for it become due."""
    if run.kind != RunKind.FLOW:
        return
    if milestone is RunMilestone.FAILED:
        _retry_freshness_targets(tx, run.subject)
    missed = case((triggers.c.due.is_not(None), triggers.c.missed + 1), else_=triggers.c.missed)
    conditions = (triggers.c.flow == run.subject, triggers.c.milestone == milestone)
    due = func.coalesce(triggers.c.due, tx.now)
    tx.connection.execute(update(triggers).where(*conditions).values(due=due, missed=missed))


def replace_failed_run(tx: Transaction, run: AnyRow) -> None:
    """Request another run in place of one that failed without a fault of its tasks; it takes over the firings.

    A run that only freshness targets requested is due again by itself. A run without firings was requested by a
    caller, who gets the error.
    """
    fired_triggers = tx.connection.execute(select(firings.c.trigger).where(firings.c.run_id == run.id)).scalars().all()
    if all(isinstance(from_json(trigger), LagTrigger) for trigger in fired_triggers):
        return
    not_before = tx.now + _compute_failure_delay(tx, run.subject)
    new_run = ensure_pending_run(tx, run.subject, due=run.due or run.created, not_before=not_before)
    tx.connection.execute(update(firings).where(firings.c.run_id == run.id).values(run_id=new_run))


def _compute_failure_delay(tx: Transaction, flow: str) -> float:
    """Seconds to wait after a failure: exponential back-off in the failures since the flow last finished."""
    of_flow = (runs.c.subject == flow, runs.c.kind == RunKind.FLOW)
    finished = select(func.coalesce(func.max(runs.c.id), 0)).where(*of_flow, runs.c.state == RunState.FINISHED)
    is_later = runs.c.id > finished.scalar_subquery()
    query = select(func.count()).select_from(runs).where(*of_flow, runs.c.state == RunState.FAILED, is_later)
    failures: int = tx.connection.execute(query).scalar_one()
    return float(min(MAX_RETRY_SECONDS, RETRY_SECONDS * 2 ** max(0, min(failures, 20) - 1)))


def _retry_freshness_targets(tx: Transaction, flow: str) -> None:
    """Make the freshness triggers of a failed run's flow due again after a back-off."""
    trigger_ids = _list_freshness_triggers(tx, flow)
    retry_time = tx.now + _compute_failure_delay(tx, flow)
    is_later = or_(triggers.c.due.is_(None), triggers.c.due > retry_time)
    if trigger_ids:
        tx.connection.execute(update(triggers).where(triggers.c.id.in_(trigger_ids), is_later).values(due=retry_time))


def set_freshness_deadline(tx: Transaction, flow: str, at: float) -> None:
    """Make one of the flow's freshness triggers due at `at`, when a freshness target would be missed."""
    trigger_ids = _list_freshness_triggers(tx, flow)
    is_later = or_(triggers.c.due.is_(None), triggers.c.due > at)
    if trigger_ids:
        tx.connection.execute(update(triggers).where(triggers.c.id == trigger_ids[0], is_later).values(due=at))


def set_freshness_lead(tx: Transaction, flow: str, seconds: float) -> None:
    """Make the flow's freshness triggers due earlier by `LEAD_FACTOR` times the duration, at most by half the target
    lag.
    """
    trigger_ids = _list_freshness_triggers(tx, flow)
    lead = case((triggers.c.age / 2 < LEAD_FACTOR * seconds, triggers.c.age / 2), else_=literal(LEAD_FACTOR * seconds))
    if trigger_ids:
        tx.connection.execute(update(triggers).where(triggers.c.id.in_(trigger_ids)).values(lead=lead))


def _list_freshness_triggers(tx: Transaction, flow: str) -> list[int]:
    query = select(triggers.c.id, triggers.c.spec).join_from(triggers, bindings).where(bindings.c.name == flow)
    return [row.id for row in tx.connection.execute(query) if isinstance(from_json(row.spec), LagTrigger)]


def list_due_triggers(connection: Connection, now: float, limit: int) -> list[int]:
    query = select(triggers.c.id).where(IS_ARMED, triggers.c.due <= now).order_by(triggers.c.due).limit(limit)
    return list(connection.execute(query).scalars())


def fire_trigger(tx: Transaction, leaf: int) -> int | None:
    """Handle a due leaf; returns the run that it requests, None if it is not due or its compound is not complete."""
    leaves = _lock_trigger_leaves(tx, leaf)
    leaf_row = next((row for row in leaves if row.id == leaf), None)
    if leaf_row is None or leaf_row.due is None or leaf_row.due > tx.now or leaf_row.paused:
        return None
    next_due, missed = _compute_next_due(_parse_leaf(leaf_row.spec), leaf_row, tx.now)
    missed += leaf_row.missed
    leaf_state = {"due": next_due, "rows": 0, "bytes": 0, "since": None, "fired": tx.now, "missed": missed}
    tx.connection.execute(update(triggers).where(triggers.c.id == leaf).values(leaf_state))
    trigger = _read_trigger(tx, leaf_row)
    fired = {tuple(row.path) for row in leaves if row.fired is not None or row.id == leaf}
    if not is_satisfied(trigger, fired):
        return None
    all_missed = missed + sum(row.missed for row in leaves if row.id != leaf)
    statement = update(triggers).where(triggers.c.binding_id == leaf_row.binding_id, triggers.c.root == leaf_row.root)
    tx.connection.execute(statement.values(fired=None, missed=0))
    return _record_firing(tx, leaf_row, trigger, all_missed)


def set_workflow_priority(tx: Transaction, workflow: str, priority: int) -> None:
    _check_workflow(tx, workflow)
    tx.connection.execute(update(workflows).where(workflows.c.name == workflow).values(priority=priority))
    tx.record_event(EventKind.WORKFLOW_PRIORITISED, workflow, priority=priority)


def _check_workflow(tx: Transaction, name: str) -> None:
    query = select(workflows.c.name).where(IS_IN_USE).order_by(workflows.c.name)
    known = tx.connection.execute(query).scalars().all()
    if name not in known:
        raise NotFound(f"there is no workflow {name!r}; known are {', '.join(known) or 'none'}")


def set_workflow_paused(tx: Transaction, workflow: str, paused: bool) -> None:
    """Pause or resume a workflow: triggers and servers do not run paused flows. Data that arrive meanwhile count."""
    _check_workflow(tx, workflow)
    tx.connection.execute(update(workflows).where(workflows.c.name == workflow).values(paused=paused))
    of_workflow = triggers.c.binding_id.in_(select(bindings.c.id).where(bindings.c.workflow == workflow))
    tx.connection.execute(update(triggers).where(of_workflow).values(paused=paused))
    tx.record_event(EventKind.WORKFLOW_PAUSED if paused else EventKind.WORKFLOW_RESUMED, workflow)


def _lock_trigger_leaves(tx: Transaction, leaf: int) -> list[AnyRow]:
    """Lock the leaves of the same trigger, so that two servers cannot complete a compound at the same time."""
    position = select(triggers.c.binding_id, triggers.c.root).where(triggers.c.id == leaf).subquery()
    query = select(triggers).where(triggers.c.binding_id == position.c.binding_id, triggers.c.root == position.c.root)
    return list(tx.connection.execute(query.order_by(triggers.c.id).with_for_update(of=triggers)))


def _record_firing(tx: Transaction, leaf: AnyRow, trigger: Trigger, missed: int) -> int:
    """Record a firing; returns the run that handles it."""
    query = select(bindings.c.name).where(bindings.c.id == leaf.binding_id)
    flow: str = tx.connection.execute(query).scalar_one()
    run = ensure_pending_run(tx, flow)
    values = {"at": tx.now, "flow": flow, "trigger": to_json(trigger), "missed": missed, "run_id": run}
    tx.connection.execute(insert(firings).values(values))
    tx.record_event(EventKind.TRIGGER_FIRED, flow, run, trigger=str(trigger), missed=missed)
    return run


def ensure_pending_run(tx: Transaction, flow: str, *, due: float | None = None, not_before: float | None = None) -> int:
    """Request a run of a flow: one that is pending, else a new one; returns its id.

    A pending backfill does not count, since live data do not wait for it. `due`: since when there are data to read.
    `not_before`: when a new run may be claimed. A pending run that replaces a failed one becomes ready at once.
    """
    is_live = (IS_RUNNABLE_FLOW, runs.c.subject == flow, runs.c.backfill.is_(False))
    query = select(runs.c.id, runs.c.attempt).where(*is_live).order_by(runs.c.id).limit(1)
    pending = tx.connection.execute(query.with_for_update()).one_or_none()
    if pending is None:
        return _create_run(tx, flow, due, not_before)
    changes: Json = {"requested": tx.now} | ({} if due is None else {"due": due})
    if pending.attempt == 0:
        changes |= {"state": RunState.READY, "not_before": None}
    tx.connection.execute(update(runs).where(runs.c.id == pending.id).values(changes))
    run: int = pending.id
    return run


def _create_run(tx: Transaction, flow: str, due: float | None, not_before: float | None) -> int:
    spec = tx.connection.execute(select(bindings.c.spec).where(bindings.c.name == flow)).scalar_one()
    attempts = spec.get("attempts", 1)
    state = RunState.READY if not_before is None else RunState.WAITING
    values = {"kind": RunKind.FLOW, "subject": flow, "state": state, "attempts": attempts, "created": tx.now}
    times = {"due": due, "not_before": not_before}
    run: int = tx.connection.execute(insert(runs).values(values | times).returning(runs.c.id)).scalar_one()
    tx.record_event(EventKind.RUN_REQUESTED, flow, run, kind=RunKind.FLOW, attempts=attempts)
    return run


def _read_trigger(tx: Transaction, leaf: AnyRow) -> Trigger:
    spec = tx.connection.execute(select(bindings.c.spec).where(bindings.c.id == leaf.binding_id)).scalar_one()
    return from_json(spec["triggers"][leaf.root])


def _compute_next_due(leaf: Leaf, row: AnyRow, now: float) -> tuple[float | None, int]:
    match leaf:
        case IntervalTrigger() | CronTrigger():
            return leaf.find_next(row.due, now)
        case DataTrigger() | RunTrigger() | LagTrigger():
            return None, 0


def _build_leaf_values(root: int, path: Sequence[int], leaf: Leaf) -> Json:
    values: Json = {"root": root, "path": list(path), "spec": to_json(leaf)}
    match leaf:
        case DataTrigger():
            limits = {"min_rows": leaf.rows, "min_bytes": leaf.bytes, "age": leaf.age}
            return values | {"channel": leaf.channel} | limits
        case LagTrigger():
            return values | {"channel": leaf.channel, "age": leaf.seconds}
        case RunTrigger():
            return values | {"flow": leaf.flow, "milestone": leaf.milestone}
        case IntervalTrigger() | CronTrigger():
            return values


def _parse_leaf(spec: Json) -> Leaf:
    leaf = from_json(spec)
    assert not isinstance(leaf, AllOfTrigger)
    return leaf


def _build_row_key(row: AnyRow) -> str:
    return _format_leaf_key(row.root, row.path, row.spec)


def _format_leaf_key(root: int, path: Iterable[int], spec: Json) -> str:
    return f"{root} {list(path)} {sorted(spec.items())}"


def _copy_leaf_state(row: AnyRow) -> Json:
    return {name: row._mapping[name] for name in ("rows", "bytes", "since", "due", "missed", "fired", "lead")}


def list_runnable_flows(connection: Connection, now: float, limit: int) -> Iterator[AnyRow]:
    """Runs of flows that a server may claim: the workflow is not paused, and no run of the same flow is active."""
    other = runs.alias()
    has_active_run = exists().where(
        other.c.subject == runs.c.subject, other.c.kind == RunKind.FLOW, other.c.state.in_(ACTIVE_STATES)
    )
    query = (
        select(runs, workflows.c.priority)
        .join(bindings, bindings.c.name == runs.c.subject)
        .join(workflows, workflows.c.name == bindings.c.workflow)
        .where(
            IS_RUNNABLE_FLOW,
            or_(runs.c.not_before.is_(None), runs.c.not_before <= now),
            workflows.c.paused.is_(False),
            bindings.c.active,
            ~has_active_run,
        )
        .order_by(runs.c.backfill, workflows.c.priority.desc(), runs.c.id)
        .limit(limit)
    )
    return iter(connection.execute(query))
