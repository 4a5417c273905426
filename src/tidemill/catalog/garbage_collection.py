"""Garbage collection of blocks, in two steps.

A collected block is hidden from new readers. Runs that started earlier may still read its files, so these are purged,
and marked for removal, only when no such run is active (`removals`). The description stays, for tracing, until the run
that wrote the block expires. Events refer to that run, so that they expire with it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice

from sqlalchemy import Select, delete, exists, func, select, update

from tidemill.catalog.channel_heads import lock_channels
from tidemill.catalog.events import EventKind
from tidemill.catalog.queries import read_block
from tidemill.catalog.removals import mark_files
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.tables import IS_TO_PURGE, blocks, channels, files, pin_holds, runs
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict
from tidemill.model.block import BlockState
from tidemill.model.run import EXECUTING_STATES

_BATCH_SIZE = 500  # databases limit the parameters of a statement


def collect_blocks(tx: Transaction, block_ids: Iterable[int]) -> int:
    """Hide blocks from new readers, except those held by a pin; returns the number of blocks hidden."""
    batches = split_ids(block_ids)
    names = lock_block_channels(tx, batches)
    collected = [block for batch in batches for block in _mark_collected(tx, _exclude_pinned(tx, batch))]
    for block in collected:
        tx.record_event(EventKind.BLOCK_COLLECTED, names[block.channel_id], block.run_id, block=block.id, seq=block.seq)
    return len(collected)


def purge_blocks(tx: Transaction) -> list[str]:
    """Drop files that no active run can be reading; those that no other block shares are marked for removal."""
    batches = split_ids(tx.connection.execute(_select_purgeable()).scalars())
    names = lock_block_channels(tx, batches)
    return [path for batch in batches for path in _purge_files(tx, batch, names)]


def split_ids(ids: Iterable[int]) -> list[list[int]]:
    """The ids in batches that fit into one statement."""
    remaining = iter(sorted(ids))
    return list(iter(lambda: list(islice(remaining, _BATCH_SIZE)), []))


def lock_block_channels(tx: Transaction, batches: Iterable[list[int]]) -> dict[int, str]:
    """Lock the channels of blocks, so that no compaction shares their files meanwhile; returns their names by id."""
    touched = {channel for part in batches for channel in tx.connection.execute(_select_channels(part)).scalars()}
    return {channel.id: channel.name for channel in lock_channels(tx, channels.c.id.in_(touched))} if touched else {}


def _select_channels(ids: list[int]) -> Select[int]:
    return select(blocks.c.channel_id).where(blocks.c.id.in_(ids)).distinct()


def _exclude_pinned(tx: Transaction, ids: list[int]) -> list[int]:
    pinned = set(tx.connection.execute(select(pin_holds.c.block_id).where(pin_holds.c.block_id.in_(ids))).scalars())
    return [block for block in ids if block not in pinned]


def _mark_collected(tx: Transaction, ids: list[int]) -> list[AnyRow]:
    is_filled = (blocks.c.id.in_(ids), blocks.c.state == BlockState.FILLED)
    statement = update(blocks).where(*is_filled).values(state=BlockState.COLLECTED, collected=tx.tick_clock())
    collected = tx.connection.execute(statement.returning(blocks)).all()
    missing = set(ids) - {row.id for row in collected}
    if missing:
        block = read_block(tx.connection, min(missing))
        raise Conflict(f"block {block.id} is {block.state}; only filled blocks can be garbage-collected")
    _reduce_totals(tx, collected)
    return sorted(collected, key=lambda row: row.id)


def _reduce_totals(tx: Transaction, collected: Sequence[AnyRow]) -> None:
    """Reduce the totals of the channels, which count filled blocks."""
    reductions: dict[int, Counter[str]] = defaultdict(Counter)
    for block in collected:
        reductions[block.channel_id].update(blocks=1, rows=block.rows, bytes=block.bytes)
    for channel, amounts in reductions.items():
        totals = {name: channels.c[name] - amount for name, amount in amounts.items()}
        tx.connection.execute(update(channels).where(channels.c.id == channel).values(totals))


def _select_purgeable() -> Select[int]:
    """Blocks collected before every active run was claimed: fencing tokens are readings of the same clock."""
    oldest = select(func.min(runs.c.fencing_token)).where(runs.c.state.in_(EXECUTING_STATES)).scalar_subquery()
    return select(blocks.c.id).where(IS_TO_PURGE, blocks.c.collected < func.coalesce(oldest, blocks.c.collected + 1))


def _purge_files(tx: Transaction, ids: list[int], names: dict[int, str]) -> list[str]:
    statement = update(blocks).where(blocks.c.id.in_(ids), IS_TO_PURGE).values(collected=None)
    purged = tx.connection.execute(statement.returning(blocks)).all()
    for block in purged:
        tx.record_event(EventKind.BLOCK_PURGED, names[block.channel_id], block.run_id, block=block.id, seq=block.seq)
    block_ids = [block.id for block in purged]
    unshared = {row.path: row.run_id for row in tx.connection.execute(_select_unshared_files(block_ids))}
    tx.connection.execute(delete(files).where(files.c.block_id.in_(block_ids)))
    mark_files(tx, unshared)
    return list(unshared)


def _select_unshared_files(ids: list[int]) -> Select[str, int]:
    """Paths that no other block shares, each with the newest of the runs whose blocks refer to it."""
    other = files.alias()
    is_shared = exists().where(other.c.path == files.c.path, other.c.block_id.not_in(ids))
    query = select(files.c.path, func.max(blocks.c.run_id).label("run_id")).join_from(files, blocks)
    return query.where(files.c.block_id.in_(ids), ~is_shared).group_by(files.c.path).order_by(files.c.path)
