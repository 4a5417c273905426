"""Triggers in the catalog: what happened makes them due in the transaction in which it happens, and firing is a run.

So no firing is lost between two transactions, none is handled twice, and a tick looks at those alone that are due.
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
from tidemill.model.run import UNDER_WAY, RunKind, RunState
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

AGAIN = 60.0
"""Seconds after which what a failed run was to do is due again; twice as many after each further failure."""

LONGEST = 600.0
"""Seconds after which it is due again, however often it failed."""

EARLY = 1.5
"""Times the last plan's duration that the next begins before a promise would be broken."""


def register_triggers(tx: Transaction, binding_id: int, binding: BoundFlow, *, paused: bool) -> None:
    """Make the flow's triggers those declared. One that was declared before goes on as it was."""
    mine = triggers.c.binding_id == binding_id
    before = {_build_row_key(row): row for row in tx.connection.execute(select(triggers).where(mine).with_for_update())}
    new = [
        _build_leaf_values(root, path, leaf) for root, t in enumerate(binding.triggers) for path, leaf in list_leaves(t)
    ]
    tx.connection.execute(delete(triggers).where(mine))
    for values in new:
        kept = before.get(_format_leaf_key(values["root"], values["path"], values["spec"]))
        state = (
            _copy_leaf_state(kept) if kept is not None else {"due": find_first_due(_parse_leaf(values["spec"]), tx.now)}
        )
        tx.connection.execute(insert(triggers).values(values | state | {"binding_id": binding_id, "paused": paused}))


def remove_triggers(tx: Transaction, binding_id: int) -> None:
    tx.connection.execute(delete(triggers).where(triggers.c.binding_id == binding_id))


def record_arrival(tx: Transaction, channel: str, rows: int, size: int) -> None:
    """Data became visible on a channel: those who wait for it are due, or nearer to it."""
    more_rows, more_bytes = triggers.c.rows + rows, triggers.c.bytes + size
    since = func.coalesce(triggers.c.since, tx.now)
    any_will_do = triggers.c.least_rows.is_(None) & triggers.c.least_bytes.is_(None) & triggers.c.age.is_(None)
    enough = or_(any_will_do, more_rows >= triggers.c.least_rows, more_bytes >= triggers.c.least_bytes)
    old_enough = since + triggers.c.age - triggers.c.lead
    due = case(
        (triggers.c.due <= tx.now, triggers.c.due),
        (enough, literal(tx.now)),
        (triggers.c.due < old_enough, triggers.c.due),
        else_=old_enough,
    )
    changes = {"rows": more_rows, "bytes": more_bytes, "since": since, "due": due}
    tx.connection.execute(update(triggers).where(triggers.c.channel == channel).values(changes))


def record_run_state(tx: Transaction, run: AnyRow, what: RunMilestone) -> None:
    """A run of a flow came to something: those who wait for it are due."""
    if run.kind != RunKind.FLOW:
        return
    if what is RunMilestone.FAILED:
        _retry_freshness_targets(tx, run.subject)
    again = case((triggers.c.due.is_not(None), triggers.c.missed + 1), else_=triggers.c.missed)
    waiting = (triggers.c.flow == run.subject, triggers.c.reached == what)
    due = func.coalesce(triggers.c.due, tx.now)
    tx.connection.execute(update(triggers).where(*waiting).values(due=due, missed=again))


def replace_failed_run(tx: Transaction, run: AnyRow) -> None:
    """Ask for another run in place of one that failed for no fault of its tasks': it handles what fired that one.

    What only freshness targets asked for is due again by itself. What nothing fired was asked for by a caller, who is
    told of the failure.
    """
    fired = tx.connection.execute(select(firings.c.trigger).where(firings.c.run_id == run.id)).scalars().all()
    if all(isinstance(from_json(trigger), LagTrigger) for trigger in fired):
        return
    again = tx.now + _compute_failure_delay(tx, run.subject)
    heir = ensure_pending_run(tx, run.subject, due=run.due or run.created, not_before=again)
    tx.connection.execute(update(firings).where(firings.c.run_id == run.id).values(run_id=heir))


def _compute_failure_delay(tx: Transaction, flow: str) -> float:
    """Seconds to wait after a failure: more of them the oftener a flow failed since it last finished."""
    of_flow = (runs.c.subject == flow, runs.c.kind == RunKind.FLOW)
    finished = select(func.coalesce(func.max(runs.c.id), 0)).where(*of_flow, runs.c.state == RunState.FINISHED)
    since = runs.c.id > finished.scalar_subquery()
    failed = select(func.count()).select_from(runs).where(*of_flow, runs.c.state == RunState.FAILED, since)
    failures: int = tx.connection.execute(failed).scalar_one()
    return float(min(LONGEST, AGAIN * 2 ** max(0, min(failures, 20) - 1)))


def _retry_freshness_targets(tx: Transaction, flow: str) -> None:
    """What a failed run was to keep is still to be kept."""
    its = _list_freshness_triggers(tx, flow)
    soon = tx.now + _compute_failure_delay(tx, flow)
    later = or_(triggers.c.due.is_(None), triggers.c.due > soon)
    if its:
        tx.connection.execute(update(triggers).where(triggers.c.id.in_(its), later).values(due=soon))


def set_freshness_deadline(tx: Transaction, flow: str, at: float) -> None:
    """What a flow promises would be broken from then on: one of its conditions is due by that time."""
    its = _list_freshness_triggers(tx, flow)
    later = or_(triggers.c.due.is_(None), triggers.c.due > at)
    if its:
        tx.connection.execute(update(triggers).where(triggers.c.id == its[0], later).values(due=at))


def set_freshness_lead(tx: Transaction, flow: str, seconds: float) -> None:
    """Keeping a flow's promises takes so long: begin earlier by a little more than that, but not by half the time."""
    its = _list_freshness_triggers(tx, flow)
    lead = case((triggers.c.age / 2 < EARLY * seconds, triggers.c.age / 2), else_=literal(EARLY * seconds))
    if its:
        tx.connection.execute(update(triggers).where(triggers.c.id.in_(its)).values(lead=lead))


def _list_freshness_triggers(tx: Transaction, flow: str) -> list[int]:
    query = select(triggers.c.id, triggers.c.spec).join_from(triggers, bindings).where(bindings.c.name == flow)
    return [row.id for row in tx.connection.execute(query) if isinstance(from_json(row.spec), LagTrigger)]


def list_due_triggers(connection: Connection, now: float, limit: int) -> list[int]:
    query = select(triggers.c.id).where(IS_ARMED, triggers.c.due <= now).order_by(triggers.c.due).limit(limit)
    return list(connection.execute(query).scalars())


def fire_trigger(tx: Transaction, leaf: int) -> int | None:
    """Handle a leaf that is due; returns the run that it asks for, None if it is not due or only part of what is."""
    found = _lock_trigger_leaves(tx, leaf)
    mine = next((row for row in found if row.id == leaf), None)
    if mine is None or mine.due is None or mine.due > tx.now or mine.paused:
        return None
    due_again, missed = _compute_next_due(_parse_leaf(mine.spec), mine, tx.now)
    missed += mine.missed
    armed = {"due": due_again, "rows": 0, "bytes": 0, "since": None, "fired": tx.now, "missed": missed}
    tx.connection.execute(update(triggers).where(triggers.c.id == leaf).values(armed))
    whole = _read_trigger(tx, mine)
    fired = {tuple(row.path) for row in found if row.fired is not None or row.id == leaf}
    if not is_satisfied(whole, fired):
        return None
    all_missed = missed + sum(row.missed for row in found if row.id != leaf)
    anew = update(triggers).where(triggers.c.binding_id == mine.binding_id, triggers.c.root == mine.root)
    tx.connection.execute(anew.values(fired=None, missed=0))
    return _record_firing(tx, mine, whole, all_missed)


def set_workflow_priority(tx: Transaction, workflow: str, priority: int) -> None:
    _check_workflow(tx, workflow)
    tx.connection.execute(update(workflows).where(workflows.c.name == workflow).values(priority=priority))
    tx.record_event(EventKind.WORKFLOW_PRIORITISED, workflow, priority=priority)


def _check_workflow(tx: Transaction, name: str) -> None:
    in_use = select(workflows.c.name).where(IS_IN_USE).order_by(workflows.c.name)
    known = tx.connection.execute(in_use).scalars().all()
    if name not in known:
        raise NotFound(f"there is no workflow {name!r}; known are {', '.join(known) or 'none'}")


def set_workflow_paused(tx: Transaction, workflow: str, paused: bool) -> None:
    """Keep a workflow's flows from being run by triggers and servers, or let them go on. What came meanwhile counts."""
    _check_workflow(tx, workflow)
    tx.connection.execute(update(workflows).where(workflows.c.name == workflow).values(paused=paused))
    its = triggers.c.binding_id.in_(select(bindings.c.id).where(bindings.c.workflow == workflow))
    tx.connection.execute(update(triggers).where(its).values(paused=paused))
    tx.record_event(EventKind.WORKFLOW_PAUSED if paused else EventKind.WORKFLOW_RESUMED, workflow)


def _lock_trigger_leaves(tx: Transaction, leaf: int) -> list[AnyRow]:
    """The leaves of the same trigger, locked, so that no two servers find the last part at the same time."""
    same = select(triggers.c.binding_id, triggers.c.root).where(triggers.c.id == leaf).subquery()
    query = select(triggers).where(triggers.c.binding_id == same.c.binding_id, triggers.c.root == same.c.root)
    return list(tx.connection.execute(query.order_by(triggers.c.id).with_for_update(of=triggers)))


def _record_firing(tx: Transaction, leaf: AnyRow, whole: Trigger, missed: int) -> int:
    """A run that will handle the firing."""
    name = select(bindings.c.name).where(bindings.c.id == leaf.binding_id)
    flow: str = tx.connection.execute(name).scalar_one()
    run = ensure_pending_run(tx, flow)
    firing = {"at": tx.now, "flow": flow, "trigger": to_json(whole), "missed": missed, "run_id": run}
    tx.connection.execute(insert(firings).values(firing))
    tx.record_event(EventKind.TRIGGER_FIRED, flow, run, trigger=str(whole), missed=missed)
    return run


def ensure_pending_run(tx: Transaction, flow: str, *, due: float | None = None, not_before: float | None = None) -> int:
    """A run of a flow that has not read anything yet: one that waits already, else a new one. It is asked for now.

    A backfill that waits is none: what is due does not wait for it. `due`: since when there is something to read.
    `not_before`: when a new one may be claimed. One that waits in place of a failed one does so no longer.
    """
    live = (IS_RUNNABLE_FLOW, runs.c.subject == flow, runs.c.backfill.is_(False))
    waiting = select(runs.c.id, runs.c.attempt).where(*live).order_by(runs.c.id).limit(1)
    found = tx.connection.execute(waiting.with_for_update()).one_or_none()
    if found is None:
        return _create_run(tx, flow, due, not_before)
    changed: Json = {"asked": tx.now} | ({} if due is None else {"due": due})
    if found.attempt == 0:
        changed |= {"state": RunState.READY, "not_before": None}
    tx.connection.execute(update(runs).where(runs.c.id == found.id).values(changed))
    run: int = found.id
    return run


def _create_run(tx: Transaction, flow: str, due: float | None, not_before: float | None) -> int:
    spec = tx.connection.execute(select(bindings.c.spec).where(bindings.c.name == flow)).scalar_one()
    attempts = spec.get("attempts", 1)
    state = RunState.READY if not_before is None else RunState.WAITING
    new = {"kind": RunKind.FLOW, "subject": flow, "state": state, "attempts": attempts, "created": tx.now}
    times = {"due": due, "not_before": not_before}
    run: int = tx.connection.execute(insert(runs).values(new | times).returning(runs.c.id)).scalar_one()
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
            limits = {"least_rows": leaf.rows, "least_bytes": leaf.bytes, "age": leaf.age}
            return values | {"channel": leaf.channel} | limits
        case LagTrigger():
            return values | {"channel": leaf.channel, "age": leaf.seconds}
        case RunTrigger():
            return values | {"flow": leaf.flow, "reached": leaf.reached}
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
    """Runs of flows that a server may claim: the workflow is not paused, and no run of the same flow is under way."""
    other = runs.alias()
    under_way = exists().where(
        other.c.subject == runs.c.subject, other.c.kind == RunKind.FLOW, other.c.state.in_(UNDER_WAY)
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
            ~under_way,
        )
        .order_by(runs.c.backfill, workflows.c.priority.desc(), runs.c.id)
        .limit(limit)
    )
    return iter(connection.execute(query))
