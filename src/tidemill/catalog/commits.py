"""Steps of committing a run: all its effects become visible atomically."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, delete, insert, select, update

from tidemill.catalog.events import EventKind
from tidemill.catalog.queries import lock_binding, read_binding_cursors, read_binding_id, read_channel_ids
from tidemill.catalog.rows import AnyRow, to_binding, to_position_values
from tidemill.catalog.run_states import lock_owned_run, record_log, update_run
from tidemill.catalog.tables import IS_RESERVED, blocks, channels, costs, cursors, files, run_reads
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.triggers import ensure_pending_run, record_run_state
from tidemill.catalog.workflows import find_changed_tables
from tidemill.errors import Conflict, LeaseLost
from tidemill.model.block import Block, BlockKind, BlockOrigin, BlockState, DataFile
from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.run import Consumption, Reservation, RunClaim, RunState, WrittenBlock
from tidemill.model.trigger import RunMilestone

_FILL_BLOCK = update(blocks).where(blocks.c.id == bindparam("slot"), IS_RESERVED)


def finish_run(tx: Transaction, claim: RunClaim, stats: Mapping[str, Any], log: str) -> AnyRow:
    """Finish a run whose lease the caller still holds."""
    run = lock_owned_run(tx, claim.run.id, claim.run.fencing_token)
    if run.lease_until <= tx.now:
        seconds_late = tx.now - run.lease_until
        raise LeaseLost(
            f"the lease on run {run.id} expired {seconds_late:.1f} s ago, so it was not committed; renew it in time"
        )
    record_log(tx, run, log)
    record_run_state(tx, run, RunMilestone.COMPLETED)
    tx.record_event(EventKind.RUN_FINISHED, run.subject, run.id, attempt=run.attempt, seconds=tx.now - run.started)
    return update_run(tx, run, state=RunState.FINISHED, finished=tx.now, lease_until=None, stats=dict(stats))


def fill_slots(tx: Transaction, run: AnyRow, filled: Sequence[WrittenBlock]) -> None:
    """Fill all reservations of the run, and no others."""
    query = select(blocks.c.id).where(blocks.c.run_id == run.id, IS_RESERVED)
    reserved = sorted(tx.execute(query).scalars())
    written = sorted(block.reservation.block for block in filled)
    if reserved != written:
        raise Conflict(
            f"run {run.id} reserved the blocks {reserved}, but wrote {written}; write exactly the reserved blocks"
        )
    if filled:
        tx.execute(_FILL_BLOCK, [_build_filled_values(block) for block in filled])
    for block in filled:
        _add_files(tx, run, block.reservation, block.files)


def _build_filled_values(filled: WrittenBlock) -> Json:
    values = {name: getattr(filled, name) for name in ("schema", "identity", "source", "target", "watermark")}
    return {"slot": filled.reservation.block, "state": BlockState.FILLED, **values, **_sum_sizes(filled.files)}


def _sum_sizes(data_files: Iterable[DataFile]) -> dict[str, int]:
    return {"rows": sum(file.rows for file in data_files), "bytes": sum(file.bytes for file in data_files)}


def _add_files(tx: Transaction, run: AnyRow, slot: Reservation, added: Sequence[DataFile]) -> None:
    rows = [
        {"block_id": slot.block, "ordinal": number, "path": f.path, "rows": f.rows, "bytes": f.bytes}
        for number, f in enumerate(added)
    ]
    if rows:
        tx.execute(insert(files), rows)
    size = _sum_sizes(added)
    totals = {"blocks": channels.c.blocks + 1} | {name: channels.c[name] + amount for name, amount in size.items()}
    tx.execute(update(channels).where(channels.c.name == slot.channel).values(totals))
    tx.record_event(
        EventKind.BLOCK_FILLED, slot.channel, run.id, block=slot.block, seq=slot.seq, kind=slot.kind, **size
    )


def record_consumption(
    tx: Transaction, run: AnyRow, consumed: Sequence[Consumption], versions: Mapping[str, Identity]
) -> None:
    """Move the run's cursors, and record its reads for tracing.

    A declared table whose query was changed since the claim keeps no cursors, as if this commit had come before that
    `apply`: the run wrote the result of the old query, and the flow is due to start from scratch.
    """
    if not consumed:
        return
    ids = read_channel_ids(tx.connection, (c.channel for c in consumed))
    binding = lock_binding(tx, run.subject)
    cursor_keys = read_binding_cursors(tx, binding.id)
    changed = (c for c in consumed if c.since and (c.task, ids[c.channel]) not in cursor_keys)  # perhaps back since
    dropped = {c.task for c in changed}
    outdated = find_changed_tables(to_binding(binding).tasks, {t: i for t, i in versions.items() if t not in dropped})
    for read in consumed:
        if read.since is not None and read.task not in outdated:
            _move_cursor(tx, binding.id, ids[read.channel], read, read.since)
    if outdated:
        tx.record_event(EventKind.RUN_OUTDATED, run.subject, run.id, tasks=sorted(outdated))
    if outdated and binding.active and binding.spec["triggers"]:
        ensure_pending_run(tx, run.subject, due=run.due or run.created)
    rows = [
        {"run_id": run.id, "task": c.task, "channel_id": ids[c.channel], "since": c.since, "upto": c.upto.seq}
        for c in consumed
    ]
    tx.execute(delete(run_reads).where(run_reads.c.run_id == run.id))
    tx.execute(insert(run_reads), rows)


def record_costs(tx: Transaction, run: AnyRow, estimates: Mapping[tuple[str, str], Json]) -> None:
    if not estimates:
        return
    binding = read_binding_id(tx.connection, run.subject)
    for (task, variant), estimate in estimates.items():
        tx.upsert_row(costs, {"binding_id": binding, "task": task, "variant": variant}, {"model": estimate})


def _move_cursor(tx: Transaction, binding: int, channel: int, move: Consumption, since: int) -> None:
    """Move a cursor by compare-and-swap. A task that never consumed the channel has no cursor, which counts as 0."""
    key = {"binding_id": binding, "task": move.task, "channel_id": channel}
    conditions = [cursors.c[name] == value for name, value in key.items()]
    current = tx.execute(select(cursors.c.seq).where(*conditions)).scalar()
    if (current or 0) != since:
        raise Conflict(
            f"the cursor of task {move.task!r} on channel {move.channel!r} is at {current or 0}, not at {since} "
            "where this run started; run it again"
        )
    upto = to_position_values(move.upto)
    if current is None:
        tx.execute(insert(cursors).values(key | upto))
    elif not tx.execute(update(cursors).where(*conditions, cursors.c.seq == current).values(upto)).rowcount:
        raise Conflict(f"the cursor of task {move.task!r} on channel {move.channel!r} moved meanwhile; run it again")


def insert_compacted_block(tx: Transaction, run: AnyRow, channel: AnyRow, compacted: Block) -> int:
    """Insert a block that replaces others up to its position, which its readers reach; returns its id."""
    delta = _find_compactable_delta(tx, channel, compacted)
    is_base = compacted.kind is BlockKind.BASE
    copied = ("channel_id", "seq", "updates", "provenance", "content", "visible", "watermark")
    values = {name: delta._mapping[name] for name in copied} | {
        "kind": compacted.kind,
        "state": BlockState.FILLED,
        "origin": BlockOrigin.COMPACTION,
        "schema": compacted.schema,
        "target": delta.provenance,
        "run_id": run.id,
        "identity": delta.content if is_base else compacted.identity,
        **({} if is_base else {"since": compacted.since, "source": compacted.source}),
        **_sum_sizes(compacted.files),
    }
    block: int = tx.execute(insert(blocks).values(values).returning(blocks.c.id)).scalar_one()
    _add_files(tx, run, Reservation(block, compacted.channel, compacted.seq, compacted.kind), compacted.files)
    return block


def _find_compactable_delta(tx: Transaction, channel: AnyRow, compacted: Block) -> AnyRow:
    """The filled, visible delta at the position of the compacted block."""
    query = select(blocks).where(blocks.c.channel_id == channel.id, blocks.c.seq == compacted.seq)
    rows = tx.execute(query).all()
    if any((row.kind, row.since) == (compacted.kind, compacted.since) for row in rows):
        description = "a base" if compacted.since is None else f"a delta since {compacted.since}"
        raise Conflict(
            f"channel {channel.name!r} already has {description} at {compacted.seq}; there is nothing to compact"
        )
    filled = [row for row in rows if row.kind == BlockKind.DELTA and row.state == BlockState.FILLED]
    if not filled or compacted.seq > channel.head_seq:
        raise Conflict(
            f"channel {channel.name!r} has no filled delta at {compacted.seq} that can be read (its head is at "
            f"{channel.head_seq}); compact at one"
        )
    return filled[0]


def check_files_referenced(tx: Transaction, directory: str, data_files: Iterable[DataFile]) -> None:
    """Reject a compacted block that shares files of older blocks that were purged meanwhile."""
    shared = {f.path for f in data_files if not f.path.startswith(f"{directory}/")}
    query = select(files.c.path).where(files.c.path.in_(shared))
    missing = shared - set(tx.execute(query).scalars()) if shared else set()
    if missing:
        raise Conflict(f"{len(missing)} files were purged during the compaction, e.g. {min(missing)}; compact again")


def list_rebased_channels(locked: Iterable[AnyRow], blocks_written: Sequence[WrittenBlock]) -> list[int]:
    """The ids of the channels for which a run wrote a base."""
    rebased = {block.reservation.channel for block in blocks_written if block.reservation.kind is BlockKind.BASE}
    return [channel.id for channel in locked if channel.name in rebased]
