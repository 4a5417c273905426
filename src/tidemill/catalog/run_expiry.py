"""Expiry of runs: of each channel and bound flow only the newest runs and those still needed are kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import ColumnElement, Select, Table, and_, delete, exists, func, or_, select, update

from tidemill.catalog.channel_heads import lock_channels
from tidemill.catalog.files import HAS_PENDING_REMOVALS
from tidemill.catalog.tables import IS_TO_PURGE, blocks, channels, events, firings, insert_keys, logs, run_reads, runs
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.usage import list_refreshed_tasks, record_tallies
from tidemill.model.block import BlockState
from tidemill.model.run import RunKind, RunState
from tidemill.ports.records import RunExpiryCounts

BATCH_SIZE = 500
"""Runs that expire in one transaction, so that its locks are held briefly."""

_ENDED = (RunState.FINISHED, RunState.FAILED, RunState.KILLED)
_RUN_TABLES = (run_reads, logs, events, firings)


def is_batch_full(expired: RunExpiryCounts) -> bool:
    """Whether more runs may be expirable."""
    return expired.runs == BATCH_SIZE


def expire_batch(tx: Transaction, subject: str, keep: int) -> RunExpiryCounts:
    """Delete the oldest runs of a subject beyond the newest `keep`, at most `BATCH_SIZE` of them."""
    expired = list(tx.execute(_select_expirable(subject, keep)).scalars())
    if not expired:
        return RunExpiryCounts()
    record_tallies(tx, list(list_refreshed_tasks(tx.connection, [runs.c.id.in_(expired)])))
    block_count = _expire_blocks(tx, expired)
    for table in _RUN_TABLES:
        tx.execute(delete(table).where(table.c.run_id.in_(expired)))
    tx.execute(delete(runs).where(runs.c.id.in_(expired)))
    return RunExpiryCounts(len(expired), block_count)


def _select_expirable(subject: str, keep: int) -> Select[int]:
    newest = select(runs.c.id).where(runs.c.subject == subject).order_by(runs.c.id.desc())
    oldest_kept = newest.offset(keep - 1).limit(1).scalar_subquery()
    old = select(runs.c.id).where(runs.c.subject == subject, runs.c.id < oldest_kept, runs.c.state.in_(_ENDED))
    needed_runs = (_select_last_finished(subject), select_newest_run(blocks), select_newest_run(events))
    expirable = old.where(~_is_needed(), *(runs.c.id != run for run in needed_runs))
    return expirable.order_by(runs.c.id).limit(BATCH_SIZE)


def _is_needed() -> ColumnElement[bool]:
    """A block of the run is readable or reserved, or its files are not purged yet, or their removal is pending."""
    in_use = or_(blocks.c.state.in_((BlockState.FILLED, BlockState.RESERVED)), IS_TO_PURGE)
    return or_(exists().where(blocks.c.run_id == runs.c.id, in_use), HAS_PENDING_REMOVALS)


def _select_last_finished(subject: str) -> ColumnElement[int]:
    """The last finished run of a bound flow, which gives its progress; 0 if there is none."""
    other = runs.alias()
    is_finished = and_(other.c.subject == subject, other.c.kind == RunKind.FLOW, other.c.state == RunState.FINISHED)
    return func.coalesce(select(func.max(other.c.id)).where(is_finished).scalar_subquery(), 0)


def select_newest_run(table: Table) -> ColumnElement[int]:
    """The run of the newest row. It must stay: SQLite would reuse the id of a deleted newest row."""
    newest = select(table.c.run_id).order_by(table.c.id.desc()).limit(1)
    return func.coalesce(newest.scalar_subquery(), 0)


def _expire_blocks(tx: Transaction, run_ids: Collection[int]) -> int:
    """Delete the block rows of the runs: cancelled reservations, and garbage-collected and purged blocks."""
    query = select(blocks.c.channel_id, blocks.c.seq, blocks.c.visible).where(blocks.c.run_id.in_(run_ids))
    block_rows = tx.execute(query).all()
    newest: dict[int, int] = defaultdict(int)
    for block in block_rows:
        newest[block.channel_id] = max(newest[block.channel_id], block.seq if block.visible is not None else 0)
    for channel in lock_channels(tx, channels.c.id.in_(newest)) if newest else ():
        upto = max(channel.expired_seq, newest[channel.id])
        tx.execute(update(channels).where(channels.c.id == channel.id).values(expired_seq=upto))
    block_ids = select(blocks.c.id).where(blocks.c.run_id.in_(run_ids))
    tx.execute(delete(insert_keys).where(insert_keys.c.block_id.in_(block_ids)))
    tx.execute(delete(blocks).where(blocks.c.run_id.in_(run_ids)))
    return len(block_rows)
