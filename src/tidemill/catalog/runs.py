"""The life of a run, but for its claim and its commit: request, renew, fail, kill, reclaim."""

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
from tidemill.model.run import LOST, OWN, TO_COME, UNDER_WAY, Run, RunKind, RunState
from tidemill.model.states import ACTIONS
from tidemill.model.trigger import RunMilestone


def request_run(tx: Transaction, kind: RunKind, subject: str, *, attempts: int, backfill: bool) -> Run:
    check_active(tx.connection, "bound flow" if kind is RunKind.FLOW else "channel", subject)
    new = {"kind": kind, "subject": subject, "state": RunState.READY, "attempts": attempts, "created": tx.now}
    new |= {"backfill": backfill}
    run = tx.connection.execute(insert(runs).values(new).returning(runs)).one()
    tx.record_event(EventKind.RUN_REQUESTED, subject, run.id, kind=kind, attempts=attempts)
    return to_run(run)


def renew_lease(tx: Transaction, run: int, fence: int, *, lease: float) -> None:
    update_run(tx, lock_owned_run(tx, run, fence), lease_until=tx.now + lease)


def fail_run(tx: Transaction, run: int, fence: int, *, error: str, log: str, retry_in: float | None, lost: bool) -> Run:
    return _end_attempt(tx, lock_owned_run(tx, run, fence), error=error, log=log, retry_in=retry_in, lost=lost)


def release_run(tx: Transaction, run: int, fence: int, *, seconds: float) -> None:
    """Give a taken run back; it waits so long. That was no attempt."""
    found = lock_owned_run(tx, run, fence)
    back = {"state": RunState.WAITING, "not_before": tx.now + seconds, "attempt": found.attempt - 1}
    update_run(tx, found, **back, owner=None, lease_until=None)
    tx.record_event(EventKind.RUN_RELEASED, found.subject, run, seconds=seconds)


def mark_running(tx: Transaction, run: int, fence: int) -> None:
    """The engine has begun."""
    found = lock_owned_run(tx, run, fence)
    if found.state == RunState.SUBMITTED:
        update_run(tx, found, state=RunState.RUNNING)
        tx.record_event(EventKind.RUN_BEGAN, found.subject, run, attempt=found.attempt)


def kill_run(tx: Transaction, run: int) -> Run:
    found = read_run(tx.connection, run, lock=True)
    if found.state not in (*TO_COME, *UNDER_WAY):
        raise Conflict(f"run {run} is {found.state}; only one that has not ended can be killed")
    killed = update_run(tx, found, state=RunState.KILLED, finished=tx.now, lease_until=None)
    tx.record_event(EventKind.RUN_KILLED, found.subject, run, was=found.state)
    removals.mark_attempt(tx, found)
    _cancel_slots(tx, killed)
    _fail_followers(tx, killed)
    return to_run(killed)


ABANDONED = 3600.0
"""Seconds after which a run that only its own process can execute, and that it never began, is ended."""


def list_expired_runs(connection: Connection, now: float) -> list[int]:
    late = and_(runs.c.state.in_(UNDER_WAY), runs.c.lease_until <= now)
    never_begun = and_(runs.c.state.in_(TO_COME), runs.c.kind.in_(OWN), runs.c.created <= now - ABANDONED)
    query = select(runs.c.id).where(or_(late, never_begun))
    return list(connection.execute(query.order_by(runs.c.id)).scalars())


def reclaim_run(tx: Transaction, run: int) -> Run | None:
    """Give up one run whose lease has expired, or that was never begun; None if it was renewed or ended meanwhile."""
    found = read_run(tx.connection, run, lock=True)
    if found.state in TO_COME and found.kind in OWN and found.created <= tx.now - ABANDONED:
        return kill_run(tx, run)
    if found.state not in UNDER_WAY or found.lease_until > tx.now:
        return None
    late = tx.now - found.lease_until
    error = f"lease expired: {found.owner} did not renew it and is {late:.1f} s late"
    return _end_attempt(tx, found, error=error, log="", retry_in=0, lost=True)


def list_owned_runs(connection: Connection, owner: str) -> list[int]:
    query = select(runs.c.id).where(runs.c.state.in_(UNDER_WAY), runs.c.owner == owner)
    return list(connection.execute(query.order_by(runs.c.id)).scalars())


def reclaim_unknown_run(tx: Transaction, run: int, owner: str) -> Run | None:
    """Give up one run of which its owner knows nothing; None if it ended, or went to another owner, meanwhile."""
    found = read_run(tx.connection, run, lock=True)
    if found.state not in UNDER_WAY or found.owner != owner:
        return None
    return _end_attempt(tx, found, error=f"{owner} was cut off from the catalog", log="", retry_in=0, lost=True)


def list_runnable_actions(connection: Connection, now: float, limit: int) -> list[AnyRow]:
    """Runs of actions that a server may claim: what they read is there, and their time has come."""
    due = or_(runs.c.state == RunState.READY, runs.c.not_before <= now)
    query = select(runs).where(runs.c.state.in_(TO_COME), runs.c.kind == RunKind.ACTION, due)
    return list(connection.execute(query.order_by(runs.c.id).limit(limit)))


def lock_owned_run(tx: Transaction, run: int, fence: int) -> AnyRow:
    """Lock a run that the caller claimed under `fence`; raises `LeaseLost` if it is no longer the caller's."""
    found = read_run(tx.connection, run, lock=True)
    if found.state not in UNDER_WAY:
        raise LeaseLost(f"run {run} is {found.state}, no longer under way under fence {fence}; stop working on it")
    if found.fence != fence:
        raise LeaseLost(
            f"run {run} was claimed again by {found.owner} under fence {found.fence}, after {fence}; stop working on it"
        )
    return found


def update_run(tx: Transaction, run: AnyRow, **values: Any) -> AnyRow:
    """Move a run on from the state in which it was read, as far as the table of moves allows."""
    if "state" in values:
        ACTIONS.check_transition(RunState(run.state), RunState(values["state"]))
    as_read = (runs.c.id == run.id, runs.c.state == run.state, runs.c.fence == run.fence)
    changed = tx.connection.execute(update(runs).where(*as_read).values(values).returning(runs)).one_or_none()
    if changed is None:
        raise Conflict(f"run {run.id} is no longer {run.state} under fence {run.fence}; look at it again")
    return changed


def record_log(tx: Transaction, run: AnyRow, text: str) -> None:
    if text:
        tx.connection.execute(insert(logs).values(run_id=run.id, attempt=run.attempt, text=sanitize_text(text)))


def _end_attempt(tx: Transaction, run: AnyRow, *, error: str, log: str, retry_in: float | None, lost: bool) -> Run:
    """End an attempt without result: ready again if there is to be another one, else failed.

    `lost`: it was no fault of the tasks'. Such attempts are counted apart from those that the tasks allow.
    """
    said = sanitize_text(error)
    given_back = lost and run.kind not in OWN
    remains = run.lost < LOST if given_back else run.attempt - run.lost < run.attempts
    count = run.lost + given_back
    if retry_in is not None and remains:
        kind = EventKind.RUN_RETRIED
        state = RunState.WAITING if retry_in > 0 else RunState.READY
        again = {"state": state, "not_before": tx.now + retry_in, "owner": None}
        ended = update_run(tx, run, **again, lease_until=None, error=said, lost=count)
    else:
        kind = EventKind.RUN_FAILED
        ended = update_run(tx, run, state=RunState.FAILED, finished=tx.now, lease_until=None, error=said, lost=count)
        triggers.record_run_state(tx, run, RunMilestone.FAILED)
        if lost:
            triggers.replace_failed_run(tx, run)
    record_log(tx, run, log)
    tx.record_event(kind, run.subject, run.id, attempt=run.attempt, error=said)
    removals.mark_attempt(tx, run)
    _cancel_slots(tx, run)
    if ended.state == RunState.FAILED:
        _fail_followers(tx, ended)
    return to_run(ended)


def _fail_followers(tx: Transaction, ended: AnyRow) -> None:
    """What an action would have made will never come, nor will what others would make from it."""
    dead = [ended] if ended.kind == RunKind.ACTION else []
    for run in dead:  # it grows meanwhile
        said = f"run {run.id} of {run.subject}, for whose result it waited, {run.state}"
        for number in datasets.abandon_dataset(tx, run.id):
            waiting = read_run(tx.connection, number, lock=True)
            dead.append(update_run(tx, waiting, state=RunState.FAILED, finished=tx.now, error=said))
            tx.record_event(EventKind.RUN_FAILED, waiting.subject, number, attempt=waiting.attempt, error=said)


def _cancel_slots(tx: Transaction, run: AnyRow) -> None:
    """Whatever the run would have written changes nothing, and its insert keys may be used again."""
    held = lock_reserved_channels(tx, run.id)
    names = {channel.id: channel.name for channel in held}
    cancelled = (
        update(blocks)
        .where(blocks.c.run_id == run.id, IS_RESERVED)
        .values(state=BlockState.CANCELLED)
        .returning(blocks.c.id, blocks.c.channel_id, blocks.c.seq)
    )
    slots = tx.connection.execute(cancelled).all()
    tx.connection.execute(delete(insert_keys).where(insert_keys.c.block_id.in_([slot.id for slot in slots])))
    for slot in slots:
        tx.record_event(EventKind.BLOCK_CANCELLED, names[slot.channel_id], run.id, block=slot.id, seq=slot.seq)
    advance_heads(tx, held, run.id)
