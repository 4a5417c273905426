"""Steps of claiming a run: its reservations, read spans, lease and fencing token, in one transaction."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from sqlalchemy import delete, insert, select, update

from tidemill.catalog.channel_heads import lock_named_channels
from tidemill.catalog.events import EventKind
from tidemill.catalog.queries import lock_binding, read_binding_cursors, read_binding_id, read_run
from tidemill.catalog.rows import AnyRow, to_binding, to_head, to_position, to_run
from tidemill.catalog.run_states import update_run
from tidemill.catalog.tables import IS_ACTIVE_FLOW, IS_RESERVED, blocks, channels, insert_keys, run_reads, runs
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.triggers import record_run_state
from tidemill.catalog.workflows import list_task_versions
from tidemill.errors import ChannelBusy, Conflict, DuplicateKey, InsertInProgress
from tidemill.model.block import INITIAL_POSITION, BlockOrigin, BlockState, ChannelPosition
from tidemill.model.channel import Channel
from tidemill.model.codec import Json, updates_to_json
from tidemill.model.evolution import can_read
from tidemill.model.identity import Identity
from tidemill.model.run import (
    PENDING_STATES,
    ClaimRequest,
    ReadRequest,
    ReadSpan,
    Reservation,
    ReservationRequest,
    RunClaim,
    RunKind,
    RunState,
)
from tidemill.model.store import format_attempt_directory
from tidemill.model.trigger import RunMilestone

Channels = Mapping[str, AnyRow]


def claim_locked_run(
    tx: Transaction, ready: AnyRow, request: ClaimRequest, *, owner: str, lease: float, attempt: int
) -> RunClaim:
    """Reserve the outputs of a locked run and take its lease, so that it can start."""
    names = {s.channel for s in request.reservations} | {r.channel for r in request.reads}
    locked = lock_named_channels(tx, names | request.intermediate_channels)
    _check_versions(tx, ready, request.task_identities)
    _check_no_reservation(tx, [locked[name] for name in sorted(request.intermediate_channels)])
    spans = _compute_spans(tx, ready, request.reads, locked)
    slots = _reserve_slots(tx, ready, request.reservations, locked)
    started = start_attempt(tx, ready, RunState.SUBMITTED, owner, lease, attempt=attempt)
    _record_stops(tx, ready, spans, locked)
    record_run_state(tx, started, RunMilestone.LAUNCHED)
    seqs = [[slot.channel, slot.seq] for slot in slots.values()]
    tx.record_event(EventKind.RUN_CLAIMED, ready.subject, ready.id, owner=owner, attempt=attempt, slots=seqs)
    return RunClaim(to_run(started), started.directory, slots, spans, request.task_identities)


def _check_versions(tx: Transaction, run: AnyRow, versions: Mapping[str, Identity]) -> None:
    """Reject a claim by a process that loaded the flow's code before another process registered a change of it."""
    registered = list_task_versions(to_binding(lock_binding(tx, run.subject))) if versions else {}
    if any(registered.get(task) != identity for task, identity in versions.items()):
        raise Conflict(
            f"flow {run.subject!r} was changed by apply since this process loaded its code, so run {run.id} was not "
            "claimed; load the project again, then run the flow"
        )


def lock_ready_run(tx: Transaction, run: int) -> AnyRow:
    """Lock a run that may be claimed now; raises `Conflict` if it may not."""
    row = read_run(tx.connection, run, lock=True)
    if row.state not in PENDING_STATES:
        raise Conflict(f"run {run} is {row.state}, not ready; only a ready run can be claimed")
    if row.not_before is not None and row.not_before > tx.now:
        seconds = row.not_before - tx.now
        raise Conflict(f"run {run} can be retried in {seconds:.3f} s; claim it then")
    if row.kind == RunKind.FLOW:
        _check_no_other_run(tx, row)
    if row.kind == RunKind.ACTION and row.state == RunState.WAITING and row.not_before is None:
        raise Conflict(f"run {run} waits for the outputs of other runs; claim it when all of them are available")
    return row


def _check_no_other_run(tx: Transaction, run: AnyRow) -> None:
    same_flow = select(runs.c.id).where(IS_ACTIVE_FLOW, runs.c.subject == run.subject)
    other_run = tx.execute(same_flow).scalar()
    if other_run is not None:
        raise Conflict(
            f"run {other_run} of flow {run.subject!r} is already running; claim run {run.id} when it has ended"
        )


def _check_no_reservation(tx: Transaction, through: Sequence[AnyRow]) -> None:
    names = {channel.id: channel.name for channel in through}
    reserved = select(blocks.c.channel_id, blocks.c.run_id).where(IS_RESERVED, blocks.c.channel_id.in_(names))
    reservation = tx.execute(reserved.limit(1)).first() if names else None
    if reservation is not None:
        raise ChannelBusy(
            f"run {reservation.run_id} holds a reservation on channel {names[reservation.channel_id]!r}, which this "
            "run both writes and reads; claim it when that run has ended"
        )


def _compute_spans(
    tx: Transaction, run: AnyRow, reads: Iterable[ReadRequest], locked: Channels
) -> dict[tuple[str, str], ReadSpan]:
    has_cursors = any(request.cursor for request in reads)
    cursors = read_binding_cursors(tx, read_binding_id(tx.connection, run.subject)) if has_cursors else {}
    return {
        (request.task, request.channel): _compute_span(tx, request, locked[request.channel], cursors)
        for request in reads
    }


def _compute_span(
    tx: Transaction, request: ReadRequest, channel: AnyRow, consumed: Mapping[tuple[str, int], ChannelPosition]
) -> ReadSpan:
    upto, since = to_head(channel), consumed.get((request.task, channel.id), INITIAL_POSITION)
    if request.requires_cursor and (request.task, channel.id) not in consumed:
        raise Conflict(
            f"task {request.task!r} has no cursor on channel {channel.name!r}: its query was changed meanwhile and "
            "starts from scratch; plan again"
        )
    if request.upto is not None and request.upto != upto.seq:
        upto = since if request.upto == since.seq else _read_position(tx, channel, request.upto)
    if request.cursor and since.seq > upto.seq:
        raise Conflict(
            f"task {request.task!r} has consumed channel {channel.name!r} up to {since.seq} meanwhile, "
            f"beyond {upto.seq}, where this run would end; plan again"
        )
    return ReadSpan(since if request.cursor else upto, upto)


def _record_stops(tx: Transaction, run: AnyRow, spans: Mapping[tuple[str, str], ReadSpan], locked: Channels) -> None:
    """Record the reads that end before a head: the commit leaves cursors there, from where changes stay readable."""
    rows = [
        {"run_id": run.id, "task": task, "channel_id": locked[channel].id, "upto": span.upto.seq}
        for (task, channel), span in spans.items()
        if span.upto.seq < locked[channel].head_seq
    ]
    if rows:
        tx.execute(delete(run_reads).where(run_reads.c.run_id == run.id))
        tx.execute(insert(run_reads), rows)


def _read_position(tx: Transaction, channel: AnyRow, seq: int) -> ChannelPosition:
    """The position at a visible block."""
    conditions = (blocks.c.channel_id == channel.id, blocks.c.seq == seq, blocks.c.state == BlockState.FILLED)
    row = tx.execute(select(blocks).where(*conditions).limit(1)).first() if seq < channel.head_seq else None
    if row is None:
        raise Conflict(
            f"channel {channel.name!r} cannot be read at {seq} (its head is at {channel.head_seq}); plan again"
        )
    return to_position(row)


def _reserve_slots(
    tx: Transaction, run: AnyRow, requests: Sequence[ReservationRequest], locked: Channels
) -> dict[tuple[str | None, str], Reservation]:
    """Reserve sequence numbers in the order requested. Runs get them in the order in which they start."""
    if not requests:
        return {}
    for request in requests:
        _check_insert_keys(tx, locked[request.channel], request.keys)
        _check_channel_unchanged(locked[request.channel], request.expected_channel)
    seqs = {
        name: count(_allocate_seqs(tx, locked[name], n))
        for name, n in Counter(request.channel for request in requests).items()
    }
    rows = [_build_slot(run, request, locked[request.channel], next(seqs[request.channel])) for request in requests]
    statement = insert(blocks).returning(blocks.c.id, sort_by_parameter_order=True)
    ids = list(tx.execute(statement, rows).scalars())
    _record_insert_keys(tx, requests, locked, ids)
    return {
        (request.task, request.channel): Reservation(
            block, request.channel, row["seq"], request.kind, request.task, request.updates
        )
        for block, request, row in zip(ids, requests, rows, strict=True)
    }


def _check_channel_unchanged(channel: AnyRow, known: Channel | None) -> None:
    """Reject rows that were read before the claim, for a channel that has changed incompatibly since."""
    if known is None or known.schema is None:
        return
    is_same = updates_to_json(channel.updates) == updates_to_json(known.updates) and channel.role == known.role
    if not is_same or not can_read(known.schema, channel.schema, known.updates.key):
        raise Conflict(f"channel {channel.name!r} was changed by apply while rows for it were read; insert them again")


def _check_insert_keys(tx: Transaction, channel: AnyRow, keys: tuple[str, ...]) -> None:
    """Raise if an insert already used one of the idempotency keys."""
    conditions = (insert_keys.c.channel_id == channel.id, insert_keys.c.key.in_(keys))
    query = select(insert_keys.c.key, blocks).join_from(insert_keys, blocks).where(*conditions)
    block = tx.execute(query).first() if keys else None
    if block is None:
        return
    if block.state != BlockState.RESERVED:
        raise DuplicateKey(
            f"insert key {block.key!r} was already used on channel {channel.name!r} by run {block.run_id} "
            f"(block {block.id}, {block.state}); get it with inserted()"
        )
    raise InsertInProgress(
        f"an insert with the key {block.key!r} is in progress on channel {channel.name!r}: run {block.run_id}; "
        "repeat this insert when that run has ended or its lease has expired"
    )


def _record_insert_keys(
    tx: Transaction, requests: Sequence[ReservationRequest], locked: Channels, ids: Sequence[int]
) -> None:
    rows = [
        {"channel_id": locked[request.channel].id, "key": key, "block_id": block}
        for request, block in zip(requests, ids, strict=True)
        for key in request.keys
    ]
    if rows:
        tx.execute(insert(insert_keys), rows)


def _allocate_seqs(tx: Transaction, channel: AnyRow, amount: int) -> int:
    """Allocate the next sequence numbers of a channel; returns the first."""
    statement = update(channels).where(channels.c.id == channel.id).values(next_seq=channels.c.next_seq + amount)
    next_seq: int = tx.execute(statement.returning(channels.c.next_seq)).scalar_one()
    return next_seq - amount


def _build_slot(run: AnyRow, request: ReservationRequest, channel: AnyRow, seq: int) -> Json:
    return {
        "channel_id": channel.id,
        "seq": seq,
        "kind": request.kind,
        "state": BlockState.RESERVED,
        "origin": BlockOrigin.INSERT if run.kind == RunKind.INSERT else BlockOrigin.RUN,
        "updates": request.updates or channel.updates,
        "run_id": run.id,
        "task": request.task,
    }


def start_attempt(tx: Transaction, run: AnyRow, state: RunState, owner: str, lease: float, *, attempt: int) -> AnyRow:
    """Take the lease of a locked run under a new fencing token."""
    fencing_token = tx.tick_clock()
    held = {"fencing_token": fencing_token, "owner": owner, "lease_until": tx.now + lease}
    directory = format_attempt_directory(run.id, fencing_token)
    started = {"started": tx.now, "not_before": None, "error": None, "directory": directory}
    return update_run(tx, run, state=state, attempt=attempt, **held, **started)
