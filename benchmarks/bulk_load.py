"""Bulk load of catalog history: the rows that many inserts would leave, for benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sqlalchemy import Table, insert, update

from tidemill.catalog.catalog import SqlCatalog
from tidemill.catalog.channel_heads import advance_heads, lock_named_channels
from tidemill.catalog.events import EventKind
from tidemill.catalog.tables import blocks, channels, files, firings, runs
from tidemill.catalog.transaction import Transaction
from tidemill.model.block import BlockKind, BlockOrigin, BlockState
from tidemill.model.codec import Json
from tidemill.model.identity import compute_identity
from tidemill.model.run import RunKind, RunState
from tidemill.model.trigger import DataTrigger, to_json

_BATCH_SIZE = 5000


def append_history(catalog: SqlCatalog, channel: str, count: int) -> None:
    """Append `count` delta blocks to an input channel, each with a run, a file entry without a file, and an event."""
    for start in range(0, count, _BATCH_SIZE):
        catalog.database.run_transaction(partial(_append_blocks, name=channel, count=min(_BATCH_SIZE, count - start)))


def _append_blocks(tx: Transaction, *, name: str, count: int) -> None:
    channel = lock_named_channels(tx, [name])[name]
    run = {"kind": RunKind.INSERT, "subject": name, "state": RunState.FINISHED, "attempts": 1, "created": tx.now}
    run_ids = _insert_rows(tx, runs, [run] * count)
    common = {
        "channel_id": channel.id,
        "kind": BlockKind.DELTA,
        "state": BlockState.FILLED,
        "origin": BlockOrigin.INSERT,
    }
    common |= {"schema": channel.schema, "updates": channel.updates, "rows": 1, "bytes": 1}
    block_rows = [
        common | {"seq": seq, "run_id": run_id, "identity": compute_identity(name, seq)}
        for seq, run_id in enumerate(run_ids, channel.next_seq)
    ]
    block_ids = _insert_rows(tx, blocks, block_rows)
    file_rows = [
        {"block_id": b, "ordinal": 0, "path": f"history/{b}.parquet", "rows": 1, "bytes": 1} for b in block_ids
    ]
    tx.execute(insert(files), file_rows)
    for block, run_id in zip(block_ids, run_ids, strict=True):
        tx.record_event(EventKind.BLOCK_FILLED, name, run_id, block=block)
    totals = {total: channels.c[total] + count for total in ("next_seq", "blocks", "rows", "bytes")}
    tx.execute(update(channels).where(channels.c.id == channel.id).values(totals))
    advance_heads(tx, [channel])


def append_runs(catalog: SqlCatalog, flows: Sequence[str], count: int) -> None:
    """Append finished runs of flows in turns, each with statistics, a firing, and the events of its request and end."""
    for start in range(0, count, _BATCH_SIZE):
        subjects = [flows[number % len(flows)] for number in range(start, min(start + _BATCH_SIZE, count))]
        catalog.database.run_transaction(partial(_append_finished_runs, subjects=subjects))


def _append_finished_runs(tx: Transaction, *, subjects: Sequence[str]) -> None:
    times = dict.fromkeys(("created", "started", "finished"), tx.now)
    common = {"kind": RunKind.FLOW, "state": RunState.FINISHED, "attempts": 1, "attempt": 1, **times}
    figures = {"seconds": 0.1, "rows_in": 100, "rows_out": 10, "variant": "incremental", "content": 1000, "change": 100}
    rows = [common | {"subject": name, "stats": {"tasks": {name: figures | {"steps": []}}}} for name in subjects]
    run_ids = _insert_rows(tx, runs, rows)
    for name, run_id in zip(subjects, run_ids, strict=True):
        tx.record_event(EventKind.RUN_REQUESTED, name, run_id, kind=RunKind.FLOW, attempts=1)
        tx.record_event(EventKind.RUN_FINISHED, name, run_id, attempt=1, seconds=0.1)
    trigger = to_json(DataTrigger("history"))
    fired = zip(subjects, run_ids, strict=True)
    tx.execute(
        insert(firings), [{"at": tx.now, "flow": f, "trigger": trigger, "missed": 0, "run_id": r} for f, r in fired]
    )


def _insert_rows(tx: Transaction, table: Table, rows: Sequence[Json]) -> list[int]:
    """Insert rows; returns their ids, in the same order."""
    statement = insert(table).returning(table.c.id, sort_by_parameter_order=True)
    return list(tx.execute(statement, rows).scalars())
