"""Channels: their positions and cursors, the merge costs of their readers, and their producers.

Merge costs are the seconds that readers spent merging since the newest base, and the cost of a new base.

A producer numbers its messages 1, 2, 3, …; its number moves in the commit of the block that holds them. So a message
that is sent again is recognised, by any server and after any crash.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import BigInteger, Connection, Select, Text, and_, column, delete, func, insert, select, update

from tidemill.catalog.database import CatalogPart, in_snapshot, in_transaction
from tidemill.catalog.queries import (
    BLOCKS,
    build_rows,
    check_known,
    read_channel,
    read_channel_ids,
    select_stops,
    split_batches,
)
from tidemill.catalog.rows import AnyRow, build_reader, to_channel, to_head, to_position
from tidemill.catalog.tables import (
    IS_BASE,
    IS_NOT_COMPACTED,
    IS_RESERVED,
    bindings,
    blocks,
    channel_merge_costs,
    channels,
    cursors,
    producers,
    runs,
)
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict, GarbageCollected
from tidemill.model.block import BlockKind, BlockState, ChannelPosition
from tidemill.model.change import Append
from tidemill.model.codec import Json
from tidemill.model.run import EXECUTING_STATES, FILE_PRODUCER_PREFIX, ProducerAdvance
from tidemill.ports.records import ChannelMergeCost, Cursor, RegisteredChannel

_CURSORS = (
    select(cursors, bindings.c.name.label("binding"), channels.c.name.label("channel"))
    .join_from(cursors, bindings)
    .join(channels)
    .where(bindings.c.active)
    .order_by(bindings.c.name, cursors.c.task, channels.c.name)
)
_RESERVED = select(func.count()).where(IS_RESERVED, blocks.c.channel_id == channels.c.id).correlate(channels)
_CHANNELS = select(channels, _RESERVED.scalar_subquery().label("reserved")).order_by(channels.c.name)
_IS_FILLED = blocks.c.state == BlockState.FILLED
_IS_VERSION = (blocks.c.channel_id == channels.c.id, IS_NOT_COMPACTED, blocks.c.seq > 0)
_NO_COST = {"reads": 0, "seconds": 0.0}


class SqlChannelCatalog(CatalogPart):
    """A `ChannelCatalog` over SQL."""

    @in_snapshot
    def read(self, connection: Connection, name: str) -> RegisteredChannel:
        (registered,) = _read_channels(connection, [name])
        return registered

    @in_snapshot
    def read_all(self, connection: Connection, names: Collection[str]) -> list[RegisteredChannel]:
        return _read_channels(connection, names)

    @in_snapshot
    def read_cursors(self, connection: Connection, channel: str | None = None) -> list[Cursor]:
        query = _CURSORS
        if channel is not None:
            query = query.where(cursors.c.channel_id == read_channel(connection, channel).id)
        return [_to_cursor(row) for row in connection.execute(query)]

    @in_snapshot
    def read_flow_cursors(self, connection: Connection, flows: Collection[str]) -> list[Cursor]:
        queries = (_CURSORS.where(bindings.c.name.in_(batch)) for batch in split_batches(flows))
        return [_to_cursor(row) for query in queries for row in connection.execute(query)]

    @in_snapshot
    def list_versions(self, connection: Connection, since: Mapping[str, int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {name: [] for name in since}
        for batch in split_batches(since.items()):
            for row in connection.execute(_select_versions(batch)):
                found[row.name].append(row.visible)
        return found

    @in_snapshot
    def find_next_versions(
        self, connection: Connection, versions: Mapping[str, Collection[int]]
    ) -> dict[str, list[int]]:
        found: dict[str, set[int]] = {name: set() for name in versions}
        pairs = [(name, version) for name, known in versions.items() for version in known]
        for batch in split_batches(pairs):
            for row in connection.execute(_select_next_versions(batch)):
                found[row.name] |= {row.next, row.newest} - {None}
        return {name: sorted(later) for name, later in found.items()}

    @in_snapshot
    def list_pending_seqs(self, connection: Connection, positions: Mapping[str, int]) -> dict[str, list[int]]:
        pending: dict[str, list[int]] = {name: [] for name in positions}
        for batch in split_batches(positions.items()):
            for row in connection.execute(_select_pending(batch)):
                pending[row.name].append(row.seq)
        return pending

    @in_snapshot
    def read_position(
        self, connection: Connection, channel: str, *, seq: int | None = None, version: int | None = None
    ) -> ChannelPosition:
        row = read_channel(connection, channel)
        if (seq is None or seq >= row.head_seq) and version is None:
            return to_head(row)
        block_row = _read_newest_visible(connection, row, seq, version)
        if block_row.seq != seq and block_row.seq < row.expired_seq:
            raise GarbageCollected(
                f"channel {channel} can no longer be read there: its history up to {row.expired_seq} has expired; "
                "to keep more, raise run_history under [maintenance]"
            )
        return to_position(block_row)

    @in_snapshot
    def list_active_positions(self, connection: Connection, channel: str) -> set[int]:
        row = read_channel(connection, channel)
        was_visible = (blocks.c.channel_id == row.id, blocks.c.visible <= runs.c.fencing_token)
        newest = select(func.max(blocks.c.seq)).where(*was_visible, _IS_FILLED)
        positions = select(newest.scalar_subquery()).where(runs.c.state.in_(EXECUTING_STATES))
        stops = select_stops([row.id])
        return {seq for seq in connection.execute(positions.union(stops)).scalars() if seq is not None}

    @in_snapshot
    def count_content_rows(self, connection: Connection) -> dict[str, int]:
        """The number of rows at the head of each active channel, where it is known.

        A base has as many rows as its files, and appended rows are added to them. The effect of upserts, signed rows
        and other deltas is known once they are merged into the next base.
        """
        bases = select(blocks.c.channel_id, func.max(blocks.c.seq).label("seq")).join_from(blocks, channels)
        bases = bases.where(IS_BASE, _IS_FILLED, blocks.c.seq <= channels.c.head_seq)
        newest = bases.group_by(blocks.c.channel_id).subquery()
        columns = (blocks.c.channel_id, blocks.c.seq, blocks.c.since, blocks.c.kind, blocks.c.updates, blocks.c.rows)
        since_base = and_(blocks.c.channel_id == newest.c.channel_id, blocks.c.seq >= newest.c.seq)
        query = select(*columns, channels.c.name, channels.c.head_seq, newest.c.seq.label("base"))
        query = query.join_from(blocks, channels).join(newest, since_base).where(channels.c.active)
        query = query.where(_IS_FILLED, blocks.c.seq <= channels.c.head_seq).order_by(blocks.c.channel_id, blocks.c.seq)
        rows_by_channel: dict[tuple[str, int], list[Any]] = defaultdict(list)
        for row in connection.execute(query):
            rows_by_channel[row.name, row.head_seq].append(row)
        counts = {name: _count_by_seq(rows).get(head) for (name, head), rows in rows_by_channel.items()}
        return {name: count for name, count in counts.items() if count is not None}

    @in_snapshot
    def list_merge_costs(self, connection: Connection, min_seconds: float = 0.0) -> list[ChannelMergeCost]:
        joined = select(channel_merge_costs, channels.c.name).join_from(channel_merge_costs, channels)
        rows = connection.execute(joined.where(channel_merge_costs.c.seconds >= min_seconds).order_by(channels.c.name))
        return [_to_merge_cost(row) for row in rows]

    @in_transaction
    def record_merge_costs(self, tx: Transaction, seconds_by_channel: Mapping[str, float]) -> None:
        record_merge_costs(tx, seconds_by_channel, is_interactive=True)

    @in_snapshot
    def read_producer_sequences(self, connection: Connection, channel: str, names: Collection[str]) -> dict[str, int]:
        conditions = (producers.c.channel_id == read_channel(connection, channel).id, producers.c.name.in_(names))
        rows = connection.execute(select(producers.c.name, producers.c.last).where(*conditions)).all()
        return dict.fromkeys(names, 0) | {row.name: row.last for row in rows}

    @in_transaction
    def expire_producers(self, tx: Transaction, age: float) -> int:
        is_file = producers.c.name.startswith(FILE_PRODUCER_PREFIX, autoescape=True)
        return tx.execute(delete(producers).where(producers.c.at < tx.now - age, ~is_file)).rowcount

    @in_snapshot
    def list(self, connection: Connection) -> list[RegisteredChannel]:
        return [to_channel(row) for row in connection.execute(_CHANNELS.where(channels.c.active))]


def _read_channels(connection: Connection, names: Collection[str]) -> list[RegisteredChannel]:
    queries = (_CHANNELS.where(channels.c.name.in_(batch)) for batch in split_batches(names))
    registered = [to_channel(row) for query in queries for row in connection.execute(query)]
    check_known(connection, names, {r.channel.name for r in registered})
    return registered


def _to_cursor(row: AnyRow) -> Cursor:
    return Cursor(row.binding, row.task, row.channel, to_position(row))


def _select_versions(positions: Iterable[tuple[str, int]]) -> Select[Any]:
    """The versions of input channels from the given ones on."""
    given = build_rows(positions, column("name", Text), column("since", BigInteger))
    query = select(given.c.name, blocks.c.visible).join_from(given, channels, channels.c.name == given.c.name)
    return query.join(blocks, and_(*_IS_VERSION, blocks.c.visible >= given.c.since)).order_by(blocks.c.visible)


def _select_next_versions(positions: Iterable[tuple[str, int]]) -> Select[Any]:
    """Of each version of an input channel, the next one and the newest one, both found by an index."""
    given = build_rows(positions, column("name", Text), column("version", BigInteger))
    visible = select(blocks.c.visible).where(*_IS_VERSION).limit(1).correlate(channels, given)
    following = visible.where(blocks.c.visible > given.c.version).order_by(blocks.c.visible)
    newest = visible.where(blocks.c.visible.is_not(None)).order_by(blocks.c.visible.desc())
    found = (following.scalar_subquery().label("next"), newest.scalar_subquery().label("newest"))
    return select(given.c.name, *found).join_from(given, channels, channels.c.name == given.c.name)


def _select_pending(positions: Iterable[tuple[str, int]]) -> Select[Any]:
    """The distinct filled positions after the given ones, up to the heads."""
    given = build_rows(positions, column("name", Text), column("since", BigInteger))
    is_pending = (
        blocks.c.channel_id == channels.c.id,
        blocks.c.seq > given.c.since,
        blocks.c.seq <= channels.c.head_seq,
    )
    query = select(given.c.name, blocks.c.seq).join_from(given, channels, channels.c.name == given.c.name)
    return query.join(blocks, and_(*is_pending, _IS_FILLED)).distinct().order_by(given.c.name, blocks.c.seq)


_to_merge_cost = build_reader(ChannelMergeCost, channel="name")


def _read_newest_visible(connection: Connection, channel: AnyRow, seq: int | None, version: int | None) -> AnyRow:
    query = BLOCKS.where(blocks.c.channel_id == channel.id, blocks.c.visible.is_not(None))
    if seq is not None:
        query = query.where(blocks.c.seq <= max(seq, 0)).order_by(blocks.c.seq.desc())
    if version is not None:
        query = query.where(blocks.c.visible <= max(version, 0)).order_by(blocks.c.visible.desc())
    return connection.execute(query.limit(1)).one()


def _count_by_seq(rows: Iterable[Any]) -> dict[int, int]:
    """Row counts by sequence number. Compacted deltas and the deltas that they replace lead to the same counts."""
    counts: dict[int, int] = {}
    for row in rows:
        if row.kind == BlockKind.BASE and row.seq == row.base:
            counts[row.seq] = row.rows
        elif row.since in counts and (isinstance(row.updates, Append) or not row.rows):
            counts.setdefault(row.seq, counts[row.since] + row.rows)
    return counts


def record_merge_costs(tx: Transaction, seconds_by_channel: Mapping[str, float], *, is_interactive: bool) -> None:
    """Record one read of each channel with its seconds of merging, in the order of ids, as channels are locked."""
    ids = read_channel_ids(tx.connection, seconds_by_channel) if seconds_by_channel else {}
    for name in sorted(seconds_by_channel, key=ids.__getitem__):
        seconds = seconds_by_channel[name]
        values = {"reads": int(seconds > 0), "seconds": seconds, "interactive_reads": int(is_interactive)}
        sums = {column: channel_merge_costs.c[column] + amount for column, amount in values.items()}
        tx.upsert_row(channel_merge_costs, {"channel_id": ids[name]}, sums, values)


def reset_merge_costs(tx: Transaction, channel_ids: Collection[int]) -> None:
    """Reset the costs of channels that have a new base."""
    for channel in sorted(channel_ids):
        of_channel = channel_merge_costs.c.channel_id == channel
        tx.execute(update(channel_merge_costs).where(of_channel).values(_NO_COST))


def record_rewrite_cost(tx: Transaction, channel_id: int, rewrite_cost: Json) -> None:
    change = {"rewrite_cost": rewrite_cost}
    tx.upsert_row(channel_merge_costs, {"channel_id": channel_id}, change, _NO_COST | {"interactive_reads": 0} | change)


def advance_producers(tx: Transaction, producer_advances: Iterable[ProducerAdvance]) -> None:
    """Move the numbers of producers by compare-and-swap, in one order, so that transactions cannot deadlock."""
    advances = sorted(producer_advances, key=lambda advance: advance.producer)
    ids = read_channel_ids(tx.connection, (move.channel for move in advances)) if advances else {}
    for move in advances:
        _advance_producer(tx, ids[move.channel], move)


def _advance_producer(tx: Transaction, channel: int, move: ProducerAdvance) -> None:
    conditions = (producers.c.channel_id == channel, producers.c.name == move.producer)
    statement = update(producers).where(*conditions, producers.c.last == move.since).values(last=move.upto, at=tx.now)
    if tx.execute(statement).rowcount:
        return
    current = tx.execute(select(producers.c.last).where(*conditions)).scalar()
    if current is not None or move.since != 0:
        raise Conflict(
            f"producer {move.producer!r} of channel {move.channel!r} is at message {current or 0}, not at "
            f"{move.since}: another client pushed for it meanwhile; send the unacknowledged messages again"
        )
    values = {"channel_id": channel, "name": move.producer, "last": move.upto, "at": tx.now}
    tx.execute(insert(producers).values(values))
