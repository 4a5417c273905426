"""Claiming a run: its slots, its spans, its lease and its fence, in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from sqlalchemy import insert, select, update

from tidemill.catalog import triggers
from tidemill.catalog.channel_heads import lock_named_channels
from tidemill.catalog.events import EventKind
from tidemill.catalog.queries import lock_binding, read_binding_id, read_run
from tidemill.catalog.rows import AnyRow, to_head, to_position, to_run, to_task_versions
from tidemill.catalog.runs import lock_owned_run, request_run, update_run
from tidemill.catalog.tables import IS_FLOW_UNDER_WAY, IS_RESERVED, blocks, channels, cursors, insert_keys, runs
from tidemill.catalog.transaction import Transaction
from tidemill.errors import ChannelBusy, Conflict, InsertUnderWay, KeyUsed
from tidemill.model.block import BEGINNING, BlockOrigin, BlockState, ChannelPosition
from tidemill.model.channel import Channel
from tidemill.model.codec import Json, updates_to_json
from tidemill.model.evolution import can_read
from tidemill.model.identity import Identity
from tidemill.model.run import (
    TO_COME,
    ClaimRequest,
    ReadRequest,
    ReadSpan,
    Reservation,
    ReservationRequest,
    Run,
    RunClaim,
    RunKind,
    RunState,
)
from tidemill.model.store import format_attempt_directory
from tidemill.model.trigger import RunMilestone

Channels = Mapping[str, AnyRow]


def acquire_run(tx: Transaction, run: int, *, owner: str, lease: float) -> Run:
    """Have a run before it is known what it will need."""
    ready = _lock_ready_run(tx, run)
    taken = _start_attempt(tx, ready, RunState.CLAIMED, owner, lease, attempt=ready.attempt + 1)
    tx.record_event(EventKind.RUN_TAKEN, ready.subject, run, owner=owner, attempt=taken.attempt)
    return to_run(taken)


def claim_run(
    tx: Transaction, run: int, demand: ClaimRequest, *, owner: str, lease: float, fence: int | None = None
) -> RunClaim:
    """Take a run, or go on with one that was taken under `fence`: its slots are reserved, and it can begin."""
    ready = _lock_ready_run(tx, run) if fence is None else lock_owned_run(tx, run, fence)
    held = lock_named_channels(tx, _list_channel_names(demand))
    _check_versions(tx, ready, demand.versions)
    _check_no_reservation(tx, [held[name] for name in sorted(demand.through)])
    spans = _compute_spans(tx, ready, demand.reads, held)
    slots = _reserve_slots(tx, ready, demand.slots, held)
    attempt = ready.attempt + (fence is None)
    started = _start_attempt(tx, ready, RunState.SUBMITTED, owner, lease, attempt=attempt)
    triggers.record_run_state(tx, started, RunMilestone.LAUNCHED)
    seqs = [[slot.channel, slot.seq] for slot in slots.values()]
    tx.record_event(EventKind.RUN_CLAIMED, ready.subject, run, owner=owner, attempt=started.attempt, slots=seqs)
    return RunClaim(to_run(started), started.directory, slots, spans, demand.versions)


def _check_versions(tx: Transaction, run: AnyRow, versions: Mapping[str, Identity]) -> None:
    """A process may have loaded a flow's code before another registered a change of it."""
    registered = to_task_versions(lock_binding(tx, run.subject)) if versions else {}
    if any(registered.get(task) != identity for task, identity in versions.items()):
        raise Conflict(
            f"flow {run.subject!r} was changed by apply since this process loaded its code, so run {run.id} was not "
            "claimed; load the project again, then run the flow"
        )


def claim_new_run(
    tx: Transaction, kind: RunKind, subject: str, demand: ClaimRequest, *, owner: str, lease: float
) -> RunClaim:
    """Ask for a run and claim it, in one step: no run is left behind that nobody will ever claim."""
    run = request_run(tx, kind, subject, attempts=1, backfill=False)
    return claim_run(tx, run.id, demand, owner=owner, lease=lease)


def _list_channel_names(demand: ClaimRequest) -> set[str]:
    return {s.channel for s in demand.slots} | {r.channel for r in demand.reads} | demand.through


def _lock_ready_run(tx: Transaction, run: int) -> AnyRow:
    found = read_run(tx.connection, run, lock=True)
    if found.state not in TO_COME:
        raise Conflict(f"run {run} is {found.state}, not ready; only a ready run can be claimed")
    if found.not_before is not None and found.not_before > tx.now:
        wait = found.not_before - tx.now
        raise Conflict(f"run {run} is ready to be tried again only in {wait:.3f} s; claim it then")
    if found.kind == RunKind.FLOW:
        _check_no_other_run(tx, found)
    if found.kind == RunKind.ACTION and found.state == RunState.WAITING and found.not_before is None:
        raise Conflict(f"run {run} waits for what others make; it can be claimed when all of it is there")
    return found


def _check_no_other_run(tx: Transaction, run: AnyRow) -> None:
    same_flow = select(runs.c.id).where(IS_FLOW_UNDER_WAY, runs.c.subject == run.subject)
    other = tx.connection.execute(same_flow).scalar()
    if other is not None:
        raise Conflict(f"run {other} of flow {run.subject!r} is already running; claim run {run.id} when it has ended")


def _check_no_reservation(tx: Transaction, through: Sequence[AnyRow]) -> None:
    names = {channel.id: channel.name for channel in through}
    held = select(blocks.c.channel_id, blocks.c.run_id).where(IS_RESERVED, blocks.c.channel_id.in_(names))
    slot = tx.connection.execute(held.limit(1)).first() if names else None
    if slot is not None:
        raise ChannelBusy(
            f"run {slot.run_id} holds a slot of channel {names[slot.channel_id]!r}, which this run must read "
            "through; claim it when that run has ended"
        )


def _compute_spans(
    tx: Transaction, run: AnyRow, reads: Iterable[ReadRequest], held: Channels
) -> dict[tuple[str, str], ReadSpan]:
    consumed = _read_cursors(tx, run.subject) if any(want.cursor for want in reads) else {}
    return {(want.task, want.channel): _compute_span(tx, want, held[want.channel], consumed) for want in reads}


def _compute_span(
    tx: Transaction, want: ReadRequest, channel: AnyRow, consumed: Mapping[tuple[str, int], ChannelPosition]
) -> ReadSpan:
    upto, since = to_head(channel), consumed.get((want.task, channel.id), BEGINNING)
    if want.goes_on and (want.task, channel.id) not in consumed:
        raise Conflict(
            f"task {want.task!r} was to go on from what it consumed of channel {channel.name!r}, but its query was "
            "changed meanwhile and starts afresh; plan again"
        )
    if want.upto is not None and want.upto != upto.seq:
        upto = since if want.upto == since.seq else _read_position(tx, channel, want.upto)
    if want.cursor and since.seq > upto.seq:
        raise Conflict(
            f"task {want.task!r} has consumed channel {channel.name!r} up to {since.seq} meanwhile, "
            f"beyond {upto.seq} where this run shall read it; plan again"
        )
    return ReadSpan(since if want.cursor else upto, upto)


def _read_position(tx: Transaction, channel: AnyRow, seq: int) -> ChannelPosition:
    """The position at a slot that is visible."""
    of_slot = (blocks.c.channel_id == channel.id, blocks.c.seq == seq, blocks.c.state == BlockState.FILLED)
    found = tx.connection.execute(select(blocks).where(*of_slot).limit(1)).first() if seq < channel.head_seq else None
    if found is None:
        raise Conflict(
            f"channel {channel.name!r} cannot be read at {seq} (its head is at {channel.head_seq}); plan again"
        )
    return to_position(found)


def _read_cursors(tx: Transaction, binding: str) -> dict[tuple[str, int], ChannelPosition]:
    of_binding = select(cursors).where(cursors.c.binding_id == read_binding_id(tx.connection, binding))
    return {(row.task, row.channel_id): to_position(row) for row in tx.connection.execute(of_binding)}


def _reserve_slots(
    tx: Transaction, run: AnyRow, wanted: Sequence[ReservationRequest], held: Channels
) -> dict[tuple[str | None, str], Reservation]:
    """Slots in the order wanted. Runs get theirs in the order in which they start."""
    if not wanted:
        return {}
    for want in wanted:
        _check_insert_keys(tx, held[want.channel], want.keys)
        _check_channel_unchanged(held[want.channel], want.made_for)
    seqs = {name: count(_allocate_seqs(tx, held[name], n)) for name, n in Counter(w.channel for w in wanted).items()}
    rows = [_build_slot(run, want, held[want.channel], next(seqs[want.channel])) for want in wanted]
    adding = insert(blocks).returning(blocks.c.id, sort_by_parameter_order=True)
    ids = list(tx.connection.execute(adding, rows).scalars())
    _record_insert_keys(tx, wanted, held, ids)
    return {
        (want.task, want.channel): Reservation(block, want.channel, row["seq"], want.kind, want.task, want.updates)
        for block, want, row in zip(ids, wanted, rows, strict=True)
    }


def _check_channel_unchanged(channel: AnyRow, known: Channel | None) -> None:
    """What was read before the claim must be rows that the channel as it is now could hold."""
    if known is None or known.schema is None:
        return
    same = updates_to_json(channel.updates) == updates_to_json(known.updates) and channel.role == known.role
    if not same or not can_read(known.schema, channel.schema, known.updates.key):
        raise Conflict(f"channel {channel.name!r} was changed by apply while rows for it were read; insert them again")


def _check_insert_keys(tx: Transaction, channel: AnyRow, keys: tuple[str, ...]) -> None:
    """Raise unless all of the keys may be used."""
    of_these = (insert_keys.c.channel_id == channel.id, insert_keys.c.key.in_(keys))
    used = select(insert_keys.c.key, blocks).join_from(insert_keys, blocks).where(*of_these)
    block = tx.connection.execute(used).first() if keys else None
    if block is None:
        return
    if block.state != BlockState.RESERVED:
        raise KeyUsed(
            f"insert key {block.key!r} was already used on channel {channel.name!r} by run {block.run_id} "
            f"(block {block.id}, {block.state}); ask inserted() for it"
        )
    raise InsertUnderWay(
        f"an insert with the key {block.key!r} is under way on channel {channel.name!r}: run {block.run_id}, which "
        "ends, or is reclaimed when its lease ends; repeat this one then"
    )


def _record_insert_keys(
    tx: Transaction, wanted: Sequence[ReservationRequest], held: Channels, ids: Sequence[int]
) -> None:
    rows = [
        {"channel_id": held[want.channel].id, "key": key, "block_id": block}
        for want, block in zip(wanted, ids, strict=True)
        for key in want.keys
    ]
    if rows:
        tx.connection.execute(insert(insert_keys), rows)


def _allocate_seqs(tx: Transaction, channel: AnyRow, slots: int) -> int:
    """Take the next sequence numbers of a channel; returns the first."""
    taking = update(channels).where(channels.c.id == channel.id).values(next_seq=channels.c.next_seq + slots)
    after: int = tx.connection.execute(taking.returning(channels.c.next_seq)).scalar_one()
    return after - slots


def _build_slot(run: AnyRow, want: ReservationRequest, channel: AnyRow, seq: int) -> Json:
    return {
        "channel_id": channel.id,
        "seq": seq,
        "kind": want.kind,
        "state": BlockState.RESERVED,
        "origin": BlockOrigin.INSERT if run.kind == RunKind.INSERT else BlockOrigin.RUN,
        "updates": want.updates or channel.updates,
        "run_id": run.id,
        "task": want.task,
    }


def _start_attempt(tx: Transaction, run: AnyRow, state: RunState, owner: str, lease: float, *, attempt: int) -> AnyRow:
    fence = tx.tick_clock()
    return update_run(
        tx,
        run,
        state=state,
        attempt=attempt,
        fence=fence,
        owner=owner,
        lease_until=tx.now + lease,
        not_before=None,
        started=tx.now,
        error=None,
        directory=format_attempt_directory(run.id, fence),
    )
