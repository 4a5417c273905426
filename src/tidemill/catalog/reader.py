"""All read-only queries of the catalog."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, func, or_, select

from tidemill.catalog import flow_facts, merge_costs, pins, producers, registration, removals
from tidemill.catalog.engine import derive_read_engine, read_database_time, translate_errors
from tidemill.catalog.queries import BLOCKS, read_block, read_blocks, read_channel, read_run, read_run_blocks
from tidemill.catalog.row_counts import count_content_rows
from tidemill.catalog.rows import (
    OUTLINE_COLUMNS,
    AnyRow,
    to_binding,
    to_block_outline,
    to_channel,
    to_channel_read,
    to_cursor,
    to_event,
    to_firing,
    to_head,
    to_position,
    to_run,
    to_server,
    to_trigger,
)
from tidemill.catalog.servers import read_lease_end
from tidemill.catalog.tables import (
    IS_IN_USE,
    IS_NOT_COMPACTED,
    IS_READABLE_BASE,
    IS_RESERVED,
    analyses,
    bindings,
    blocks,
    channels,
    costs,
    cursors,
    events,
    firings,
    insert_keys,
    leases,
    logs,
    run_reads,
    runs,
    servers,
    triggers,
    workflows,
)
from tidemill.errors import GarbageCollected
from tidemill.model.block import Block, BlockKind, BlockState, ChannelPosition
from tidemill.model.codec import Json
from tidemill.model.run import EXECUTING_STATES, Run, RunState
from tidemill.model.store import GracePeriods, Removal
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.catalog import Clock
from tidemill.ports.records import (
    CatalogIdentity,
    ChannelMergeCost,
    ChannelRead,
    Cursor,
    DeltaLink,
    Event,
    FlowStatistics,
    RegisteredBinding,
    RegisteredChannel,
    RegisteredTrigger,
    RegisteredWorkflow,
    Server,
    TriggerFiring,
)

_OUTLINES = select(*(blocks.c[name] for name in OUTLINE_COLUMNS))
_READS = select(run_reads, channels.c.name.label("channel")).join_from(run_reads, channels)
_CURSORS = (
    select(cursors, bindings.c.name.label("binding"), channels.c.name.label("channel"))
    .join_from(cursors, bindings)
    .join(channels)
    .where(bindings.c.active)
)


class SqlCatalogReader:
    """A `CatalogReader` over SQL. Lists contain what workflows declare now; removed channels can be read by name."""

    def __init__(self, engine: Engine, clock: Clock | None = None) -> None:
        self._engine = engine
        self._read_engine = derive_read_engine(engine)
        self._clock = clock
        self._statistics_cache = flow_facts.FlowStatisticsCache()

    @contextmanager
    def _open_connection(self) -> Iterator[Connection]:
        with translate_errors(self._engine), self._read_engine.connect() as connection:
            yield connection

    def read_time(self) -> float:
        with self._open_connection() as connection:
            return self._read_time(connection)

    def _read_time(self, connection: Connection) -> float:
        return read_database_time(connection) if self._clock is None else self._clock()

    def read_analyses(self) -> dict[str, Json]:
        """The stored analyses of queries and functions, by key."""
        with self._open_connection() as connection:
            return {row.key: row.answer for row in connection.execute(select(analyses))}

    def read_identity(self) -> CatalogIdentity:
        with self._open_connection() as connection:
            return removals.read_identity(connection)

    def list_channels(self) -> list[RegisteredChannel]:
        with self._open_connection() as connection:
            rows = connection.execute(select(channels).where(channels.c.active).order_by(channels.c.name)).all()
            reserved_counts = _count_reserved(connection)
        return [to_channel(row, reserved_counts) for row in rows]

    def read_channel(self, name: str) -> RegisteredChannel:
        with self._open_connection() as connection:
            return to_channel(read_channel(connection, name), _count_reserved(connection))

    def list_refusals(self, workflow: WorkflowSpec) -> list[str]:
        with self._open_connection() as connection:
            return registration.list_refusals(connection, workflow)

    def list_bindings(self) -> list[RegisteredBinding]:
        with self._open_connection() as connection:
            rows = connection.execute(select(bindings).where(bindings.c.active).order_by(bindings.c.name))
            return [to_binding(row) for row in rows]

    def list_workflows(self) -> list[RegisteredWorkflow]:
        with self._open_connection() as connection:
            rows = connection.execute(select(workflows).where(IS_IN_USE).order_by(workflows.c.name))
            return [RegisteredWorkflow(r.name, r.applied, r.paused, r.priority, r.document) for r in rows]

    def list_triggers(self, flow: str | None = None) -> list[RegisteredTrigger]:
        query = select(triggers, bindings.c.name.label("binding")).join_from(triggers, bindings)
        query = query.order_by(bindings.c.name, triggers.c.root, triggers.c.id)
        with self._open_connection() as connection:
            rows = connection.execute(query if flow is None else query.where(bindings.c.name == flow))
            return [to_trigger(row) for row in rows]

    def list_firings(self, flow: str | None = None, limit: int = 100) -> list[TriggerFiring]:
        query = select(firings).order_by(firings.c.id.desc()).limit(limit)
        with self._open_connection() as connection:
            rows = connection.execute(query if flow is None else query.where(firings.c.flow == flow))
            return [to_firing(row) for row in rows]

    def list_servers(self) -> list[Server]:
        with self._open_connection() as connection:
            leaders = set(connection.execute(select(leases.c.owner)).scalars())
            rows = connection.execute(select(servers).order_by(servers.c.name))
            return [to_server(row, leaders) for row in rows]

    def read_costs(self, flow: str) -> dict[tuple[str, str], Json]:
        query = select(costs).join_from(costs, bindings).where(bindings.c.name == flow)
        with self._open_connection() as connection:
            return {(row.task, row.variant): row.model for row in connection.execute(query)}

    def list_merge_costs(self, min_seconds: float = 0.0) -> list[ChannelMergeCost]:
        with self._open_connection() as connection:
            return merge_costs.list_merge_costs(connection, min_seconds)

    def read_flow_statistics(self) -> dict[str, FlowStatistics]:
        with self._open_connection() as connection:
            return self._statistics_cache.read_statistics(connection)

    def read_setting_overrides(self) -> dict[str, Any]:
        with self._open_connection() as connection:
            return flow_facts.read_setting_overrides(connection)

    def count_content_rows(self) -> dict[str, int]:
        with self._open_connection() as connection:
            return count_content_rows(connection)

    def list_versions(self, channel: str, since: int) -> list[int]:
        with self._open_connection() as connection:
            of_channel = (blocks.c.channel_id == read_channel(connection, channel).id, blocks.c.visible >= since)
            query = select(blocks.c.visible).where(*of_channel, IS_NOT_COMPACTED, blocks.c.seq > 0)
            return sorted(connection.execute(query).scalars())

    def read_cursors(self, channel: str | None = None) -> list[Cursor]:
        query = _CURSORS.order_by(bindings.c.name, cursors.c.task, channels.c.name)
        with self._open_connection() as connection:
            if channel is not None:
                query = query.where(cursors.c.channel_id == read_channel(connection, channel).id)
            return [to_cursor(row) for row in connection.execute(query)]

    def read_block(self, block: int) -> Block:
        with self._open_connection() as connection:
            return read_block(connection, block)

    def list_blocks(self, channel: str | None = None, limit: int = 100) -> list[Block]:
        """The newest blocks first, in every state."""
        with self._open_connection() as connection:
            if channel is None:
                return read_blocks(connection, BLOCKS.order_by(blocks.c.id.desc()).limit(limit))
            on_channel = BLOCKS.where(blocks.c.channel_id == read_channel(connection, channel).id)
            newest = on_channel.order_by(blocks.c.seq.desc(), blocks.c.id.desc()).limit(limit)
            return read_blocks(connection, newest)

    def list_filled_blocks(self, channel: str) -> list[Block]:
        """Every filled block of a channel, oldest first, without files and provenance."""
        with self._open_connection() as connection:
            channel_row = read_channel(connection, channel)
            is_filled = (blocks.c.channel_id == channel_row.id, blocks.c.state == BlockState.FILLED)
            rows = connection.execute(_OUTLINES.where(*is_filled).order_by(blocks.c.seq, blocks.c.id))
            return [to_block_outline(row, channel) for row in rows]

    def list_visible_blocks(self, channel: str, since: int, upto: int) -> list[Block]:
        """Every block within (since, upto] that became visible, also if it was garbage-collected since."""
        with self._open_connection() as connection:
            row = read_channel(connection, channel)
            within = (blocks.c.channel_id == row.id, blocks.c.seq > since, blocks.c.seq <= upto)
            visible = BLOCKS.where(*within, IS_NOT_COMPACTED, blocks.c.visible.is_not(None))
            return read_blocks(connection, visible.order_by(blocks.c.seq))

    def list_active_positions(self, channel: str) -> set[int]:
        """The positions at which active runs read the channel: its head when they were claimed."""
        with self._open_connection() as connection:
            row = read_channel(connection, channel)
            was_visible = (blocks.c.channel_id == row.id, blocks.c.visible <= runs.c.fencing_token)
            newest = select(func.max(blocks.c.seq)).where(*was_visible, blocks.c.state == BlockState.FILLED)
            positions = select(newest.scalar_subquery()).where(runs.c.state.in_(EXECUTING_STATES))
            return {seq for seq in connection.execute(positions).scalars() if seq is not None}

    def list_pinned_blocks(self, channel: str) -> set[int]:
        with self._open_connection() as connection:
            return pins.list_pinned_blocks(connection, channel)

    def read_base_and_deltas(self, channel: str, at: int) -> list[Block]:
        """The newest filled base at or before `at`, and the filled deltas after it up to `at`."""
        with self._open_connection() as connection:
            row = read_channel(connection, channel)
            upto = min(at, row.head_seq)
            base = _find_newest_base(connection, row, upto)
            if base is None:
                return []
            either = or_(blocks.c.kind == BlockKind.BASE, blocks.c.seq > base)
            between = (blocks.c.channel_id == row.id, blocks.c.seq >= base, blocks.c.seq <= upto)
            readable = BLOCKS.where(*between, either, blocks.c.state == BlockState.FILLED)
            return read_blocks(connection, readable.order_by(blocks.c.seq))

    def list_deltas(self, channel: str, since: int, upto: int) -> list[Block]:
        """The filled deltas within (since, upto]."""
        with self._open_connection() as connection:
            row = read_channel(connection, channel)
            within = (blocks.c.channel_id == row.id, blocks.c.seq > since, blocks.c.seq <= min(upto, row.head_seq))
            query = BLOCKS.where(*within, blocks.c.kind == BlockKind.DELTA, blocks.c.state == BlockState.FILLED)
            return read_blocks(connection, query.order_by(blocks.c.seq))

    def list_delta_links(self, channel: str, since: int) -> list[DeltaLink]:
        with self._open_connection() as connection:
            row = read_channel(connection, channel)
            within = (blocks.c.channel_id == row.id, blocks.c.seq > since, blocks.c.seq <= row.head_seq)
            filled = (blocks.c.kind == BlockKind.DELTA, blocks.c.state == BlockState.FILLED)
            query = select(blocks.c.since, blocks.c.seq, blocks.c.visible).where(*within, *filled)
            delta_rows = connection.execute(query.order_by(blocks.c.seq)).all()
        return [DeltaLink(delta.since, delta.seq, delta.visible / 1_000_000) for delta in delta_rows]

    def read_position(self, channel: str, *, seq: int | None = None, version: int | None = None) -> ChannelPosition:
        """The position at the newest filled block not after `seq`, or not visible after `version`.

        Blocks garbage-collected since count: their positions are known, though they may no longer be readable. Only
        input channels have versions; elsewhere the clock's reading when a block became visible is compared.
        If the block may have expired, that is an error, since the block before it has another content.
        """
        with self._open_connection() as connection:
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

    def find_inserted_blocks(self, channel: str, keys: Collection[str]) -> dict[str, Block]:
        """The blocks that were inserted under these idempotency keys, by key."""
        with self._open_connection() as connection:
            row = read_channel(connection, channel)
            conditions = (insert_keys.c.channel_id == row.id, insert_keys.c.key.in_(keys))
            key_rows = connection.execute(select(insert_keys.c.key, insert_keys.c.block_id).where(*conditions))
            ids_by_key = {row.key: row.block_id for row in key_rows}
            query = BLOCKS.where(blocks.c.id.in_(set(ids_by_key.values())), blocks.c.state != BlockState.RESERVED)
            blocks_by_id = {block.id: block for block in read_blocks(connection, query)} if ids_by_key else {}
        return {key: blocks_by_id[block] for key, block in ids_by_key.items() if block in blocks_by_id}

    def read_lease_end(self, name: str) -> float | None:
        with self._open_connection() as connection:
            return read_lease_end(connection, name)

    def find_consumer_offset(self, name: str) -> int | None:
        with self._open_connection() as connection:
            return producers.find_consumer_offset(connection, name)

    def read_producer_sequences(self, channel: str, names: Collection[str]) -> dict[str, int]:
        with self._open_connection() as connection:
            return producers.read_sequences(connection, channel, names)

    def read_run(self, run: int) -> Run:
        with self._open_connection() as connection:
            return to_run(read_run(connection, run))

    def list_runs(self, *, state: RunState | None = None, subject: str | None = None, limit: int = 100) -> list[Run]:
        """The newest runs first."""
        query = select(runs).order_by(runs.c.id.desc()).limit(limit)
        if state is not None:
            query = query.where(runs.c.state == state)
        if subject is not None:
            query = query.where(runs.c.subject == subject)
        with self._open_connection() as connection:
            return [to_run(row) for row in connection.execute(query)]

    def read_log(self, run: int) -> str:
        """The logs of all attempts, in their order."""
        with self._open_connection() as connection:
            read_run(connection, run)
            texts = connection.execute(select(logs.c.text).where(logs.c.run_id == run).order_by(logs.c.attempt))
            return "\n".join(texts.scalars())

    def list_overfull_subjects(self, subjects: Collection[str], *, keep: int) -> list[str]:
        """The subjects with more than `keep` runs, in the order of their names."""
        query = select(runs.c.subject).where(runs.c.subject.in_(subjects)).group_by(runs.c.subject)
        with self._open_connection() as connection:
            overfull = query.having(func.count() > keep).order_by(runs.c.subject)
            return list(connection.execute(overfull).scalars())

    def list_run_reads(self, run: int) -> list[ChannelRead]:
        with self._open_connection() as connection:
            read_run(connection, run)
            query = _READS.where(run_reads.c.run_id == run).order_by(run_reads.c.task, channels.c.name)
            return [to_channel_read(row) for row in connection.execute(query)]

    def list_block_reads(self, channel: str, seq: int) -> list[ChannelRead]:
        """The reads of finished runs that covered sequence number `seq` of a channel."""
        # Reads are recorded when a run commits, so those of other runs are not in the table.
        with self._open_connection() as connection:
            on_channel = _READS.where(run_reads.c.channel_id == read_channel(connection, channel).id)
            after_start = or_(run_reads.c.since.is_(None), run_reads.c.since < seq)
            covering = on_channel.where(run_reads.c.upto >= seq, after_start)
            ordered = covering.order_by(run_reads.c.run_id, run_reads.c.task)
            return [to_channel_read(row) for row in connection.execute(ordered)]

    def list_written_blocks(self, run: int) -> list[Block]:
        with self._open_connection() as connection:
            read_run(connection, run)
            return read_run_blocks(connection, run)

    def list_events(self, *, after: int = 0, run: int | None = None, limit: int = 100) -> list[Event]:
        query = select(events).where(events.c.id > after).order_by(events.c.id).limit(limit)
        if run is not None:
            query = query.where(events.c.run_id == run)
        with self._open_connection() as connection:
            return [to_event(row) for row in connection.execute(query)]

    def list_referenced_files(self) -> set[str]:
        with self._open_connection() as connection:
            return removals.list_referenced_files(connection)

    def list_newest_files(self, limit: int) -> list[str]:
        with self._open_connection() as connection:
            return removals.list_newest_files(connection, limit)

    def find_referenced_files(self, paths: Collection[str]) -> set[str]:
        with self._open_connection() as connection:
            return removals.find_referenced_files(connection, paths)

    def find_attempts(self, directories: Collection[str]) -> dict[str, Run]:
        with self._open_connection() as connection:
            return removals.find_attempts(connection, directories)

    def list_marked_paths(self) -> set[str]:
        with self._open_connection() as connection:
            return removals.list_marked_paths(connection)

    def list_due_removals(self, grace: GracePeriods, limit: int) -> list[Removal]:
        with self._open_connection() as connection:
            return removals.list_due_removals(connection, self._read_time(connection), grace, limit)

    def list_active_directories(self) -> set[str]:
        with self._open_connection() as connection:
            running = select(runs.c.directory).where(runs.c.state.in_(EXECUTING_STATES))
            return set(connection.execute(running).scalars())

    def close(self) -> None:
        self._engine.dispose()


def _count_reserved(connection: Connection) -> dict[int, int]:
    """The number of open reservations, by channel id."""
    query = select(blocks.c.channel_id, func.count().label("slots")).where(IS_RESERVED).group_by(blocks.c.channel_id)
    return {row.channel_id: row.slots for row in connection.execute(query)}


def _find_newest_base(connection: Connection, channel: AnyRow, upto: int) -> int | None:
    bases = select(func.max(blocks.c.seq)).where(IS_READABLE_BASE, blocks.c.channel_id == channel.id)
    seq: int | None = connection.execute(bases.where(blocks.c.seq <= upto)).scalar()
    return seq


def _read_newest_visible(connection: Connection, channel: AnyRow, seq: int | None, version: int | None) -> AnyRow:
    query = BLOCKS.where(blocks.c.channel_id == channel.id, blocks.c.visible.is_not(None))
    if seq is not None:
        query = query.where(blocks.c.seq <= max(seq, 0)).order_by(blocks.c.seq.desc())
    if version is not None:
        query = query.where(blocks.c.visible <= max(version, 0)).order_by(blocks.c.visible.desc())
    return connection.execute(query.limit(1)).one()
