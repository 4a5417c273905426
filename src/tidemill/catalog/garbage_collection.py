"""Collecting blocks, in two steps.

A collected block is hidden from whoever looks for blocks from then on. Runs that began earlier may still read
its files, so these are forgotten, and marked for removal, only when no such run is left (`removals`). The description
stays, for tracing, until the run that wrote the block is forgotten. Events name that run, so that they go with it.
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
from tidemill.catalog.tables import IS_TO_PURGE, blocks, channels, files, holds, runs
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict
from tidemill.model.block import BlockState
from tidemill.model.run import AT_WORK

_AT_ONCE = 500  # databases limit the parameters of a statement


def collect_blocks(tx: Transaction, wanted: Iterable[int]) -> int:
    """What a pin holds by now is left; returns how many were not."""
    parts = split_ids(wanted)
    names = lock_block_channels(tx, parts)
    collected = [block for part in parts for block in _mark_collected(tx, _exclude_pinned(tx, part))]
    for block in collected:
        tx.record_event(EventKind.BLOCK_COLLECTED, names[block.channel_id], block.run_id, block=block.id, seq=block.seq)
    return len(collected)


def purge_blocks(tx: Transaction) -> list[str]:
    """Forget files that no running run can be reading; those that no block names any longer are marked for removal."""
    parts = split_ids(tx.connection.execute(_select_purgeable()).scalars())
    names = lock_block_channels(tx, parts)
    return [path for part in parts for path in _purge_files(tx, part, names)]


def split_ids(ids: Iterable[int]) -> list[list[int]]:
    """Numbers in lists short enough for one statement."""
    rest = iter(sorted(ids))
    return list(iter(lambda: list(islice(rest, _AT_ONCE)), []))


def lock_block_channels(tx: Transaction, parts: Iterable[list[int]]) -> dict[int, str]:
    """Lock the channels of blocks, so that no compaction shares their files meanwhile; returns their names."""
    touched = {channel for part in parts for channel in tx.connection.execute(_select_channels(part)).scalars()}
    return {channel.id: channel.name for channel in lock_channels(tx, channels.c.id.in_(touched))} if touched else {}


def _select_channels(ids: list[int]) -> Select[int]:
    return select(blocks.c.channel_id).where(blocks.c.id.in_(ids)).distinct()


def _exclude_pinned(tx: Transaction, ids: list[int]) -> list[int]:
    held = set(tx.connection.execute(select(holds.c.block_id).where(holds.c.block_id.in_(ids))).scalars())
    return [block for block in ids if block not in held]


def _mark_collected(tx: Transaction, ids: list[int]) -> list[AnyRow]:
    is_filled = (blocks.c.id.in_(ids), blocks.c.state == BlockState.FILLED)
    collecting = update(blocks).where(*is_filled).values(state=BlockState.COLLECTED, collected=tx.tick_clock())
    done = tx.connection.execute(collecting.returning(blocks)).all()
    left = set(ids) - {row.id for row in done}
    if left:
        block = read_block(tx.connection, min(left))
        raise Conflict(f"block {block.id} is {block.state}; only filled blocks can be collected")
    _reduce_totals(tx, done)
    return sorted(done, key=lambda row: row.id)


def _reduce_totals(tx: Transaction, collected: Sequence[AnyRow]) -> None:
    """Keep the totals of the channels, which count filled blocks."""
    lost: dict[int, Counter[str]] = defaultdict(Counter)
    for block in collected:
        lost[block.channel_id].update(blocks=1, rows=block.rows, bytes=block.bytes)
    for channel, amounts in lost.items():
        less = {name: channels.c[name] - amount for name, amount in amounts.items()}
        tx.connection.execute(update(channels).where(channels.c.id == channel).values(less))


def _select_purgeable() -> Select[int]:
    """Blocks collected before every running run was claimed: fences are readings of the same clock."""
    oldest = select(func.min(runs.c.fence)).where(runs.c.state.in_(AT_WORK)).scalar_subquery()
    return select(blocks.c.id).where(IS_TO_PURGE, blocks.c.collected < func.coalesce(oldest, blocks.c.collected + 1))


def _purge_files(tx: Transaction, ids: list[int], names: dict[int, str]) -> list[str]:
    purging = update(blocks).where(blocks.c.id.in_(ids), IS_TO_PURGE).values(collected=None)
    purged = tx.connection.execute(purging.returning(blocks)).all()
    for block in purged:
        tx.record_event(EventKind.BLOCK_PURGED, names[block.channel_id], block.run_id, block=block.id, seq=block.seq)
    theirs = [block.id for block in purged]
    unnamed = {row.path: row.run_id for row in tx.connection.execute(_select_unshared_files(theirs))}
    tx.connection.execute(delete(files).where(files.c.block_id.in_(theirs)))
    mark_files(tx, unnamed)
    return list(unnamed)


def _select_unshared_files(ids: list[int]) -> Select[str, int]:
    """Paths that no other block names, each with the newest of the runs whose blocks do."""
    other = files.alias()
    elsewhere = exists().where(other.c.path == files.c.path, other.c.block_id.not_in(ids))
    named = select(files.c.path, func.max(blocks.c.run_id).label("run_id")).join_from(files, blocks)
    return named.where(files.c.block_id.in_(ids), ~elsewhere).group_by(files.c.path).order_by(files.c.path)
