"""Steps of the life cycle of runs, which several transitions share."""

from typing import Any

from sqlalchemy import delete, insert, update

from tidemill.catalog.channel_heads import advance_heads, lock_reserved_channels
from tidemill.catalog.dataset_states import abandon_dataset
from tidemill.catalog.events import EventKind
from tidemill.catalog.files import mark_attempt
from tidemill.catalog.queries import check_active, read_run
from tidemill.catalog.rows import AnyRow, sanitize_text, to_run
from tidemill.catalog.tables import IS_RESERVED, blocks, insert_keys, logs, runs
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.triggers import record_run_state, replace_ended_run
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


def request_run(tx: Transaction, kind: RunKind, subject: str, *, attempts: int, backfill: bool) -> AnyRow:
    """Insert a run that is ready to be claimed."""
    check_active(tx.connection, "bound flow" if kind is RunKind.FLOW else "channel", subject)
    values = {"kind": kind, "subject": subject, "state": RunState.READY, "attempts": attempts, "created": tx.now}
    values |= {"backfill": backfill}
    run = tx.execute(insert(runs).values(values).returning(runs)).one()
    tx.record_event(EventKind.RUN_REQUESTED, subject, run.id, kind=kind, attempts=attempts)
    return run


def kill_run(tx: Transaction, run: AnyRow) -> Run:
    """Kill a locked run."""
    if run.state not in (*PENDING_STATES, *ACTIVE_STATES):
        raise Conflict(f"run {run.id} is {run.state}; only a run that has not ended can be killed")
    killed = update_run(tx, run, state=RunState.KILLED, finished=tx.now, lease_until=None)
    tx.record_event(EventKind.RUN_KILLED, run.subject, run.id, was=run.state)
    mark_attempt(tx, run)
    _cancel_slots(tx, killed)
    _fail_followers(tx, killed)
    return to_run(killed)


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
        RUN_TRANSITIONS.check_transition(run.state, values["state"])
    unchanged = (runs.c.id == run.id, runs.c.state == run.state, runs.c.fencing_token == run.fencing_token)
    changed = tx.execute(update(runs).where(*unchanged).values(values).returning(runs)).one_or_none()
    if changed is None:
        raise Conflict(f"run {run.id} is no longer {run.state} under fencing token {run.fencing_token}; read it again")
    return changed


def record_log(tx: Transaction, run: AnyRow, text: str) -> None:
    if text:
        tx.execute(insert(logs).values(run_id=run.id, attempt=run.attempt, text=sanitize_text(text)))


def end_attempt(tx: Transaction, run: AnyRow, *, error: str, log: str, retry_in: float | None, lost: bool) -> Run:
    """End an attempt without a result: the run is ready again if attempts remain, else failed.

    `lost`: it was not a fault of the tasks. Such attempts are counted separately from those that the tasks allow.
    """
    message = sanitize_text(error)
    is_lost = lost and run.kind not in OWNER_EXECUTED_KINDS
    has_attempts = run.lost_attempts < MAX_LOST_ATTEMPTS if is_lost else run.attempt - run.lost_attempts < run.attempts
    values = {"lease_until": None, "error": message, "lost_attempts": run.lost_attempts + is_lost}
    if retry_in is not None and has_attempts:
        kind = EventKind.RUN_RETRIED
        state = RunState.WAITING if retry_in > 0 else RunState.READY
        ended = update_run(tx, run, **values, state=state, not_before=tx.now + retry_in, owner=None)
    else:
        kind = EventKind.RUN_FAILED
        ended = update_run(tx, run, **values, state=RunState.FAILED, finished=tx.now)
        record_run_state(tx, run, RunMilestone.FAILED)
        if lost:
            replace_ended_run(tx, run)
    record_log(tx, run, log)
    tx.record_event(kind, run.subject, run.id, attempt=run.attempt, error=message)
    mark_attempt(tx, run)
    _cancel_slots(tx, run)
    if ended.state == RunState.FAILED:
        _fail_followers(tx, ended)
    return to_run(ended)


def _fail_followers(tx: Transaction, ended: AnyRow) -> None:
    """Fail all runs that wait, directly or transitively, for the dataset of a failed action."""
    failed = [ended] if ended.kind == RunKind.ACTION else []
    for run in failed:  # the list grows during the loop
        message = f"run {run.id} of {run.subject}, for whose result it waited, {run.state}"
        for run_id in abandon_dataset(tx, run.id):
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
    cancelled_rows = tx.execute(statement).all()
    tx.execute(delete(insert_keys).where(insert_keys.c.block_id.in_([row.id for row in cancelled_rows])))
    for row in cancelled_rows:
        tx.record_event(EventKind.BLOCK_CANCELLED, names[row.channel_id], run.id, block=row.id, seq=row.seq)
    advance_heads(tx, locked, run.id)
