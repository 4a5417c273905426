"""What a great many inserts leave in the catalog, laid there without the inserts: for measurements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sqlalchemy import Table, insert, update

from tidemill.catalog.channel_heads import advance_heads, lock_named_channels
from tidemill.catalog.events import EventKind
from tidemill.catalog.tables import blocks, channels, files, runs
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.writer import SqlCatalog
from tidemill.model.block import BlockKind, BlockOrigin, BlockState
from tidemill.model.codec import Json
from tidemill.model.identity import compute_identity
from tidemill.model.run import RunKind, RunState

_AT_ONCE = 5000


def append_history(catalog: SqlCatalog, channel: str, count: int) -> None:
    """Append `count` delta blocks to an input channel, each with a run, a file that is nowhere, and an event."""
    for laid in range(0, count, _AT_ONCE):
        catalog.run_transaction(partial(_append_blocks, name=channel, count=min(_AT_ONCE, count - laid)))


def _append_blocks(tx: Transaction, *, name: str, count: int) -> None:
    channel = lock_named_channels(tx, [name])[name]
    run = {"kind": RunKind.INSERT, "subject": name, "state": RunState.FINISHED, "attempts": 1, "created": tx.now}
    made_by = _insert_rows(tx, runs, [run] * count)
    slot = {"channel_id": channel.id, "kind": BlockKind.DELTA, "state": BlockState.FILLED, "origin": BlockOrigin.INSERT}
    slot |= {"schema": channel.schema, "updates": channel.updates, "rows": 1, "bytes": 1}
    slots = [
        slot | {"seq": seq, "run_id": run, "identity": compute_identity(name, seq)}
        for seq, run in enumerate(made_by, channel.next_seq)
    ]
    made = _insert_rows(tx, blocks, slots)
    named = [{"block_id": b, "ordinal": 0, "path": f"history/{b}.parquet", "rows": 1, "bytes": 1} for b in made]
    tx.connection.execute(insert(files), named)
    for block, by in zip(made, made_by, strict=True):
        tx.record_event(EventKind.BLOCK_FILLED, name, by, block=block)
    grown = {total: channels.c[total] + count for total in ("next_seq", "blocks", "rows", "bytes")}
    tx.connection.execute(update(channels).where(channels.c.id == channel.id).values(grown))
    advance_heads(tx, [channel])


def _insert_rows(tx: Transaction, table: Table, rows: Sequence[Json]) -> list[int]:
    """Insert rows; returns their ids, in the same order."""
    adding = insert(table).returning(table.c.id, sort_by_parameter_order=True)
    return list(tx.connection.execute(adding, rows).scalars())
