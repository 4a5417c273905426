"""The life cycle of a run, except its claim and commit: request, renew, fail, kill, reclaim."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, and_, delete, insert, or_, select, update

from tidemill.catalog import datasets, removals, triggers
from tidemill.catalog.channel_heads import advance_heads, lock_reserved_channels
from tidemill.catalog.events import EventKind
from tidemill.catalog.queries import check_active, read_run
from tidemill.catalog.rows import AnyRow, sanitize_text, to_run
from tidemill.catalog.tables import IS_RESERVED, blocks, insert_keys, logs, runs
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict, LeaseLost
from tidemill.model.block import BlockState
from tidemill.model.run import (
    ACTIVE_STATES,
    MAX_LOST_ATTEMPTS,
    OWNER_EXECUTED_KINDS,
    PENDING_STATES,
    Run,
    RunKind,
    RunState,
)
from tidemill.model.states import RUN_TRANSITIONS
from tidemill.model.trigger import RunMilestone


def request_run(tx: Transaction, kind: RunKind, subject: str, *, attempts: int, backfill: bool) -> Run:
    check_active(tx.connection, "bound flow" if kind is RunKind.FLOW else "channel", subject)
    values = {"kind": kind, "subject": subject, "state": RunState.READY, "attempts": attempts, "created": tx.now}
    values |= {"backfill": backfill}
    run = tx.connection.execute(insert(runs).values(values).returning(runs)).one()
    tx.record_event(EventKind.RUN_REQUESTED, subject, run.id, kind=kind, attempts=attempts)
    return to_run(run)


def renew_lease(tx: Transaction, run: int, fencing_token: int, *, lease: float) -> None:
    update_run(tx, lock_owned_run(tx, run, fencing_token), lease_until=tx.now + lease)


def fail_run(
    tx: Transaction, run: int, fencing_token: int, *, error: str, log: str, retry_in: float | None, is_lost: bool
) -> Run:
    return _end_attempt(
        tx, lock_owned_run(tx, run, fencing_token), error=error, log=log, retry_in=retry_in, lost=is_lost
    )


def release_run(tx: Transaction, run: int, fencing_token: int, *, seconds: float) -> None:
    """Release an acquired run; it waits for `seconds`, and the attempt does not count."""
    row = lock_owned_run(tx, run, fencing_token)
    values = {"state": RunState.WAITING, "not_before": tx.now + seconds, "attempt": row.attempt - 1}
    update_run(tx, row, **values, owner=None, lease_until=None)
    tx.record_event(EventKind.RUN_RELEASED, row.subject, run, seconds=seconds)


def mark_running(tx: Transaction, run: int, fencing_token: int) -> None:
    """Record that the engine started the run."""
    row = lock_owned_run(tx, run, fencing_token)
    if row.state == RunState.SUBMITTED:
        update_run(tx, row, state=RunState.RUNNING)
        tx.record_event(EventKind.RUN_STARTED, row.subject, run, attempt=row.attempt)


def kill_run(tx: Transaction, run: int) -> Run:
    row = read_run(tx.connection, run, lock=True)
    if row.state not in (*PENDING_STATES, *ACTIVE_STATES):
        raise Conflict(f"run {run} is {row.state}; only a run that has not ended can be killed")
    killed = update_run(tx, row, state=RunState.KILLED, finished=tx.now, lease_until=None)
    tx.record_event(EventKind.RUN_KILLED, row.subject, run, was=row.state)
    removals.mark_attempt(tx, row)
    _cancel_slots(tx, killed)
    _fail_followers(tx, killed)
    return to_run(killed)


ABANDON_SECONDS = 3600.0
"""Seconds after which a run that only its process can execute, and that was never started, is killed."""


def list_expired_runs(connection: Connection, now: float) -> list[int]:
    is_expired = and_(runs.c.state.in_(ACTIVE_STATES), runs.c.lease_until <= now)
    is_abandoned = and_(
        runs.c.state.in_(PENDING_STATES), runs.c.kind.in_(OWNER_EXECUTED_KINDS), runs.c.created <= now - ABANDON_SECONDS
    )
    query = select(runs.c.id).where(or_(is_expired, is_abandoned))
    return list(connection.execute(query.order_by(runs.c.id)).scalars())


def reclaim_run(tx: Transaction, run: int) -> Run | None:
    """Reclaim a run whose lease has expired, or that was never started; None if it was renewed or ended meanwhile."""
    row = read_run(tx.connection, run, lock=True)
    if row.state in PENDING_STATES and row.kind in OWNER_EXECUTED_KINDS and row.created <= tx.now - ABANDON_SECONDS:
        return kill_run(tx, run)
    if row.state not in ACTIVE_STATES or row.lease_until > tx.now:
        return None
    seconds_late = tx.now - row.lease_until
    error = f"lease expired: {row.owner} did not renew it and is {seconds_late:.1f} s late"
    return _end_attempt(tx, row, error=error, log="", retry_in=0, lost=True)


def list_owned_runs(connection: Connection, owner: str) -> list[int]:
    query = select(runs.c.id).where(runs.c.state.in_(ACTIVE_STATES), runs.c.owner == owner)
    return list(connection.execute(query.order_by(runs.c.id)).scalars())


def reclaim_unknown_run(tx: Transaction, run: int, owner: str) -> Run | None:
    """Reclaim a run that its owner does not execute; None if it ended, or has another owner, meanwhile."""
    row = read_run(tx.connection, run, lock=True)
    if row.state not in ACTIVE_STATES or row.owner != owner:
        return None
    return _end_attempt(tx, row, error=f"{owner} lost its connection to the catalog", log="", retry_in=0, lost=True)


def list_runnable_actions(connection: Connection, now: float, limit: int) -> list[AnyRow]:
    """Runs of actions that a server may claim: their inputs are available, and their waiting time has passed."""
    due = or_(runs.c.state == RunState.READY, runs.c.not_before <= now)
    query = select(runs).where(runs.c.state.in_(PENDING_STATES), runs.c.kind == RunKind.ACTION, due)
    return list(connection.execute(query.order_by(runs.c.id).limit(limit)))


def lock_owned_run(tx: Transaction, run: int, fencing_token: int) -> AnyRow:
    """Lock a run that the caller claimed under `fencing_token`; raises `LeaseLost` if the caller lost its lease."""
    row = read_run(tx.connection, run, lock=True)
    if row.state not in ACTIVE_STATES:
        raise LeaseLost(
            f"run {run} is {row.state}, no longer active under fencing token {fencing_token}; stop working on it"
        )
    if row.fencing_token != fencing_token:
        raise LeaseLost(
            f"run {run} was claimed again by {row.owner} under fencing token {row.fencing_token}, "
            f"after {fencing_token}; "
            "stop working on it"
        )
    return row


def update_run(tx: Transaction, run: AnyRow, **values: Any) -> AnyRow:
    """Update a run that has not changed since it was read; a change of its state must be a legal transition."""
    if "state" in values:
        RUN_TRANSITIONS.check_transition(RunState(run.state), RunState(values["state"]))
    unchanged = (runs.c.id == run.id, runs.c.state == run.state, runs.c.fencing_token == run.fencing_token)
    changed = tx.connection.execute(update(runs).where(*unchanged).values(values).returning(runs)).one_or_none()
    if changed is None:
        raise Conflict(f"run {run.id} is no longer {run.state} under fencing token {run.fencing_token}; read it again")
    return changed


def record_log(tx: Transaction, run: AnyRow, text: str) -> None:
    if text:
        tx.connection.execute(insert(logs).values(run_id=run.id, attempt=run.attempt, text=sanitize_text(text)))


def _end_attempt(tx: Transaction, run: AnyRow, *, error: str, log: str, retry_in: float | None, lost: bool) -> Run:
    """End an attempt without a result: the run is ready again if attempts remain, else failed.

    `lost`: it was not a fault of the tasks. Such attempts are counted separately from those that the tasks allow.
    """
    message = sanitize_text(error)
    is_lost = lost and run.kind not in OWNER_EXECUTED_KINDS
    has_attempts = run.lost_attempts < MAX_LOST_ATTEMPTS if is_lost else run.attempt - run.lost_attempts < run.attempts
    lost_count = run.lost_attempts + is_lost
    if retry_in is not None and has_attempts:
        kind = EventKind.RUN_RETRIED
        state = RunState.WAITING if retry_in > 0 else RunState.READY
        values = {"state": state, "not_before": tx.now + retry_in, "owner": None}
        ended = update_run(tx, run, **values, lease_until=None, error=message, lost_attempts=lost_count)
    else:
        kind = EventKind.RUN_FAILED
        ended = update_run(
            tx, run, state=RunState.FAILED, finished=tx.now, lease_until=None, error=message, lost_attempts=lost_count
        )
        triggers.record_run_state(tx, run, RunMilestone.FAILED)
        if lost:
            triggers.replace_failed_run(tx, run)
    record_log(tx, run, log)
    tx.record_event(kind, run.subject, run.id, attempt=run.attempt, error=message)
    removals.mark_attempt(tx, run)
    _cancel_slots(tx, run)
    if ended.state == RunState.FAILED:
        _fail_followers(tx, ended)
    return to_run(ended)


def _fail_followers(tx: Transaction, ended: AnyRow) -> None:
    """Fail all runs that wait, directly or transitively, for the dataset of a failed action."""
    failed = [ended] if ended.kind == RunKind.ACTION else []
    for run in failed:  # the list grows during the loop
        message = f"run {run.id} of {run.subject}, for whose result it waited, {run.state}"
        for run_id in datasets.abandon_dataset(tx, run.id):
            follower = read_run(tx.connection, run_id, lock=True)
            failed.append(update_run(tx, follower, state=RunState.FAILED, finished=tx.now, error=message))
            tx.record_event(EventKind.RUN_FAILED, follower.subject, run_id, attempt=follower.attempt, error=message)


def _cancel_slots(tx: Transaction, run: AnyRow) -> None:
    """Cancel the reservations of a run, and release its idempotency keys."""
    locked = lock_reserved_channels(tx, run.id)
    names = {channel.id: channel.name for channel in locked}
    statement = (
        update(blocks)
        .where(blocks.c.run_id == run.id, IS_RESERVED)
        .values(state=BlockState.CANCELLED)
        .returning(blocks.c.id, blocks.c.channel_id, blocks.c.seq)
    )
    cancelled_rows = tx.connection.execute(statement).all()
    tx.connection.execute(delete(insert_keys).where(insert_keys.c.block_id.in_([row.id for row in cancelled_rows])))
    for row in cancelled_rows:
        tx.record_event(EventKind.BLOCK_CANCELLED, names[row.channel_id], run.id, block=row.id, seq=row.seq)
    advance_heads(tx, locked, run.id)
