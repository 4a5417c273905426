"""Blocks: what channels are read from, garbage collection, and pins.

Blocks are garbage-collected in two steps. A collected block is hidden from new readers. Runs that started earlier may
still read its files, so these are purged, and marked for removal, only when no such run is active (`files`). The
description stays, for tracing, until the run that wrote the block expires. Events refer to that run, so that they
expire with it.

A pin excludes a block and its inputs from garbage collection.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, exists, func, insert, or_, select, update

from tidemill.catalog.channel_heads import lock_channels
from tidemill.catalog.database import CatalogPart, in_snapshot, in_transaction
from tidemill.catalog.events import EventKind
from tidemill.catalog.files import mark_files
from tidemill.catalog.queries import (
    BLOCKS,
    read_block,
    read_blocks,
    read_channel,
    read_run,
    select_stops,
    split_batches,
)
from tidemill.catalog.rows import OUTLINE_COLUMNS, AnyRow, to_block_outline
from tidemill.catalog.tables import (
    IS_NOT_COMPACTED,
    IS_READABLE_BASE,
    IS_TO_PURGE,
    blocks,
    channels,
    cursors,
    files,
    insert_keys,
    pin_holds,
    runs,
)
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict
from tidemill.model.block import Block, BlockKind, BlockState
from tidemill.model.identity import Identity
from tidemill.model.run import EXECUTING_STATES
from tidemill.ports.records import DeltaLink

_OUTLINES = select(*(blocks.c[name] for name in OUTLINE_COLUMNS))
_IS_FILLED = blocks.c.state == BlockState.FILLED
_IS_FILLED_DELTA = (blocks.c.kind == BlockKind.DELTA, _IS_FILLED)


class SqlBlockCatalog(CatalogPart):
    """A `BlockCatalog` over SQL."""

    @in_snapshot
    def read(self, connection: Connection, block: int) -> Block:
        return read_block(connection, block)

    @in_snapshot
    def list_filled(self, connection: Connection, channel: str) -> list[Block]:
        of_channel = blocks.c.channel_id == read_channel(connection, channel).id
        rows = connection.execute(_OUTLINES.where(of_channel, _IS_FILLED).order_by(blocks.c.seq, blocks.c.id))
        return [to_block_outline(row, channel) for row in rows]

    @in_snapshot
    def list_visible(self, connection: Connection, channel: str, since: int, upto: int) -> list[Block]:
        within = _match_span(read_channel(connection, channel), since, upto)
        visible = BLOCKS.where(*within, IS_NOT_COMPACTED, blocks.c.visible.is_not(None))
        return read_blocks(connection, visible.order_by(blocks.c.seq))

    @in_snapshot
    def list_pinned(self, connection: Connection, channel: str) -> set[int]:
        held = select(pin_holds.c.block_id).join_from(pin_holds, blocks, blocks.c.id == pin_holds.c.block_id)
        return set(connection.execute(held.join(channels).where(channels.c.name == channel)).scalars())

    @in_snapshot
    def list_written(self, connection: Connection, run: int) -> list[Block]:
        read_run(connection, run)
        return read_blocks(connection, BLOCKS.where(blocks.c.run_id == run).order_by(blocks.c.id))

    @in_snapshot
    def read_base_and_deltas(self, connection: Connection, channel: str, at: int) -> list[Block]:
        row = read_channel(connection, channel)
        upto = min(at, row.head_seq)
        bases = select(func.max(blocks.c.seq)).where(IS_READABLE_BASE, blocks.c.channel_id == row.id)
        base = connection.execute(bases.where(blocks.c.seq <= upto)).scalar()
        if base is None:
            return []
        either = or_(blocks.c.kind == BlockKind.BASE, blocks.c.seq > base)
        readable = BLOCKS.where(*_match_span(row, base - 1, upto), either, _IS_FILLED)
        return read_blocks(connection, readable.order_by(blocks.c.seq))

    @in_snapshot
    def read_contents(self, connection: Connection, channels: Collection[str]) -> dict[str, list[Block]]:
        contents: dict[str, list[Block]] = defaultdict(list)
        for batch in split_batches(channels):
            for block in read_blocks(connection, _select_contents(batch)):
                contents[block.channel].append(block)
        return contents

    @in_snapshot
    def list_deltas(self, connection: Connection, channel: str, since: int, upto: int) -> list[Block]:
        row = read_channel(connection, channel)
        within = _match_span(row, since, min(upto, row.head_seq))
        return read_blocks(connection, BLOCKS.where(*within, *_IS_FILLED_DELTA).order_by(blocks.c.seq))

    @in_snapshot
    def list_delta_links(self, connection: Connection, channel: str, since: int) -> list[DeltaLink]:
        row = read_channel(connection, channel)
        within = _match_span(row, since, row.head_seq)
        query = select(blocks.c.since, blocks.c.seq, blocks.c.visible).where(*within, *_IS_FILLED_DELTA)
        delta_rows = connection.execute(query.order_by(blocks.c.seq))
        return [DeltaLink(delta.since, delta.seq, delta.visible / 1_000_000) for delta in delta_rows]

    @in_snapshot
    def find_base(self, connection: Connection, identity: Identity) -> Block | None:
        query = BLOCKS.where(IS_READABLE_BASE, blocks.c.identity == identity).order_by(blocks.c.id.desc()).limit(1)
        return next(iter(read_blocks(connection, query)), None)

    @in_snapshot
    def find_inserted(self, connection: Connection, channel: str, keys: Collection[str]) -> dict[str, Block]:
        of_channel = insert_keys.c.channel_id == read_channel(connection, channel).id
        key_query = select(insert_keys.c.key, insert_keys.c.block_id).where(of_channel, insert_keys.c.key.in_(keys))
        ids_by_key = {row.key: row.block_id for row in connection.execute(key_query)}
        query = BLOCKS.where(blocks.c.id.in_(set(ids_by_key.values())), blocks.c.state != BlockState.RESERVED)
        blocks_by_id = {block.id: block for block in read_blocks(connection, query)} if ids_by_key else {}
        return {key: blocks_by_id[block] for key, block in ids_by_key.items() if block in blocks_by_id}

    @in_transaction
    def collect(self, tx: Transaction, blocks: Collection[int], needs: Collection[int] | None = None) -> int:
        batches = split_batches(blocks)
        names = _lock_block_channels(tx, batches)
        if needs:
            _check_cursors(tx, names, needs)
        collected = [block for batch in batches for block in _mark_collected(tx, batch)]
        for block in collected:
            _record_block_event(tx, EventKind.BLOCK_COLLECTED, names, block)
        return len(collected)

    @in_transaction
    def purge(self, tx: Transaction) -> list[str]:
        batches = split_batches(tx.execute(_select_purgeable()).scalars())
        names = _lock_block_channels(tx, batches)
        return [path for batch in batches for path in _purge_files(tx, batch, names)]

    @in_transaction
    def pin(self, tx: Transaction, block: int, block_ids: Collection[int]) -> None:
        batches = split_batches(block_ids)
        _lock_block_channels(tx, batches)
        queries = (select(blocks.c.id).where(blocks.c.id.in_(batch), _IS_FILLED) for batch in batches)
        filled = {block_id for query in queries for block_id in tx.execute(query).scalars()}
        if block not in filled:
            state = read_block(tx.connection, block).state
            raise Conflict(f"block {block} is {state}; only filled blocks can be pinned")
        if filled != set(block_ids):
            raise Conflict(f"some inputs of block {block} were garbage-collected meanwhile; pin it again")
        tx.execute(delete(pin_holds).where(pin_holds.c.pin == block))
        held = [{"pin": block, "block_id": block_id} for block_id in sorted(block_ids)]
        tx.execute(insert(pin_holds), held)
        _set_pinned(tx, block, EventKind.BLOCK_PINNED, pinned=True)

    @in_transaction
    def unpin(self, tx: Transaction, block: int) -> None:
        tx.execute(delete(pin_holds).where(pin_holds.c.pin == block))
        _set_pinned(tx, block, EventKind.BLOCK_UNPINNED, pinned=False)

    @in_snapshot
    def list(self, connection: Connection, channel: str | None = None, limit: int = 100) -> list[Block]:
        query = BLOCKS.order_by(blocks.c.id.desc())
        if channel is not None:
            of_channel = blocks.c.channel_id == read_channel(connection, channel).id
            query = BLOCKS.where(of_channel).order_by(blocks.c.seq.desc(), blocks.c.id.desc())
        return read_blocks(connection, query.limit(limit))


def _select_contents(names: Iterable[str]) -> Select[Any]:
    """The newest readable base of each channel, and the filled deltas after it, up to the head."""
    bases = select(blocks.c.channel_id, func.max(blocks.c.seq).label("seq")).join_from(blocks, channels)
    bases = bases.where(IS_READABLE_BASE, blocks.c.seq <= channels.c.head_seq, channels.c.name.in_(names))
    newest = bases.group_by(blocks.c.channel_id).subquery()
    is_content = or_(blocks.c.seq > newest.c.seq, and_(blocks.c.seq == newest.c.seq, IS_READABLE_BASE))
    query = BLOCKS.join(newest, newest.c.channel_id == blocks.c.channel_id)
    return query.where(is_content, _IS_FILLED, blocks.c.seq <= channels.c.head_seq).order_by(
        channels.c.name, blocks.c.seq
    )


def _match_span(channel: AnyRow, since: int, upto: int) -> tuple[ColumnElement[bool], ...]:
    """Blocks of a channel within (since, upto]."""
    return blocks.c.channel_id == channel.id, blocks.c.seq > since, blocks.c.seq <= upto


def _lock_block_channels(tx: Transaction, batches: Iterable[list[int]]) -> dict[int, str]:
    """Lock the channels of blocks, so that no compaction shares their files meanwhile; returns their names by id."""
    queries = (select(blocks.c.channel_id).where(blocks.c.id.in_(ids)).distinct() for ids in batches)
    touched = {channel for query in queries for channel in tx.execute(query).scalars()}
    return {channel.id: channel.name for channel in lock_channels(tx, channels.c.id.in_(touched))} if touched else {}


def _check_cursors(tx: Transaction, names: dict[int, str], needs: Collection[int]) -> None:
    """Reject a collection if a cursor moved, or will move, to a position that was unknown when it was planned."""
    at_cursors = select(cursors.c.seq).where(cursors.c.channel_id.in_(names))
    seqs = set(tx.execute(at_cursors.union(select_stops(names))).scalars()) - set(needs)
    if any(seq < max(needs) for seq in seqs):
        raise Conflict(f"cursors on {', '.join(names.values())} moved to {sorted(seqs)} meanwhile; collect again")


def _record_block_event(tx: Transaction, kind: EventKind, names: dict[int, str], block: AnyRow) -> None:
    tx.record_event(kind, names[block.channel_id], block.run_id, block=block.id, seq=block.seq)


def _mark_collected(tx: Transaction, batch: list[int]) -> list[AnyRow]:
    """Mark the blocks that no pin holds."""
    ids = {*batch} - {*tx.execute(select(pin_holds.c.block_id).where(pin_holds.c.block_id.in_(batch))).scalars()}
    statement = update(blocks).where(blocks.c.id.in_(ids), _IS_FILLED)
    statement = statement.values(state=BlockState.COLLECTED, collected=tx.tick_clock())
    collected = tx.execute(statement.returning(blocks)).all()
    missing = ids - {row.id for row in collected}
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
        tx.execute(update(channels).where(channels.c.id == channel).values(totals))


def _select_purgeable() -> Select[int]:
    """Blocks collected before every active run was claimed: fencing tokens are readings of the same clock."""
    oldest = select(func.min(runs.c.fencing_token)).where(runs.c.state.in_(EXECUTING_STATES)).scalar_subquery()
    return select(blocks.c.id).where(IS_TO_PURGE, blocks.c.collected < func.coalesce(oldest, blocks.c.collected + 1))


def _purge_files(tx: Transaction, ids: list[int], names: dict[int, str]) -> list[str]:
    statement = update(blocks).where(blocks.c.id.in_(ids), IS_TO_PURGE).values(collected=None)
    purged = tx.execute(statement.returning(blocks)).all()
    for block in purged:
        _record_block_event(tx, EventKind.BLOCK_PURGED, names, block)
    block_ids = [block.id for block in purged]
    unshared = {row.path: row.run_id for row in tx.execute(_select_unshared_files(block_ids))}
    tx.execute(delete(files).where(files.c.block_id.in_(block_ids)))
    mark_files(tx, unshared)
    return list(unshared)


def _select_unshared_files(ids: list[int]) -> Select[str, int]:
    """Paths that no other block shares, each with the newest of the runs whose blocks refer to it."""
    other = files.alias()
    is_shared = exists().where(other.c.path == files.c.path, other.c.block_id.not_in(ids))
    query = select(files.c.path, func.max(blocks.c.run_id).label("run_id")).join_from(files, blocks)
    return query.where(files.c.block_id.in_(ids), ~is_shared).group_by(files.c.path).order_by(files.c.path)


def _set_pinned(tx: Transaction, block: int, kind: EventKind, *, pinned: bool) -> None:
    before = read_block(tx.connection, block)
    if before.pinned != pinned:
        tx.execute(update(blocks).where(blocks.c.id == block).values(pinned=pinned))
        tx.record_event(kind, before.channel, before.run, block=block, seq=before.seq)
