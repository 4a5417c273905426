"""Everything that can be asked of the catalog without changing anything."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, func, or_, select

from tidemill.catalog import flow_facts, merge_costs, pins, producers, registration, removals
from tidemill.catalog.engine import for_reading, time_of, translated
from tidemill.catalog.queries import BLOCKS, blocks_of_run, find_block, find_channel, find_run, load_blocks
from tidemill.catalog.row_counts import count_rows
from tidemill.catalog.rows import (
    OUTLINE,
    AnyRow,
    binding_of,
    channel_of,
    cursor_of,
    event_of,
    firing_of,
    head_of,
    outline_of,
    position_of,
    reading_of,
    run_of,
    server_of,
    trigger_of,
)
from tidemill.catalog.servers import held_until
from tidemill.catalog.tables import (
    IS_IN_USE,
    IS_READABLE_BASE,
    IS_RESERVED,
    IS_SLOT,
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
from tidemill.errors import Collected
from tidemill.model.block import Block, BlockState, Kind, Position
from tidemill.model.codec import Json
from tidemill.model.run import AT_WORK, Run, RunState
from tidemill.model.store import Grace, Removal
from tidemill.model.workflow import Workflow
from tidemill.ports.catalog import Clock
from tidemill.ports.records import (
    CatalogIdentity,
    Cursor,
    Event,
    Firing,
    FlowFacts,
    Link,
    Merging,
    Reading,
    RegisteredBinding,
    RegisteredChannel,
    RegisteredTrigger,
    RegisteredWorkflow,
    Server,
)

_OUTLINES = select(*(blocks.c[name] for name in OUTLINE))
_READINGS = select(run_reads, channels.c.name.label("channel")).join_from(run_reads, channels)
_CURSORS = (
    select(cursors, bindings.c.name.label("binding"), channels.c.name.label("channel"))
    .join_from(cursors, bindings)
    .join(channels)
    .where(bindings.c.active)
)


class SqlCatalogReader:
    """A `CatalogReader` over SQL. Lists name what workflows declare now; by its name, the removed can be read too."""

    def __init__(self, engine: Engine, clock: Clock | None = None) -> None:
        self._engine = engine
        self._reading = for_reading(engine)
        self._clock = clock
        self._facts = flow_facts.Facts()

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with translated(self._engine), self._reading.connect() as connection:
            yield connection

    def now(self) -> float:
        with self._read() as connection:
            return self._now(connection)

    def _now(self, connection: Connection) -> float:
        return time_of(connection) if self._clock is None else self._clock()

    def analyses(self) -> dict[str, Json]:
        """What was remembered of analysed queries and functions, by key."""
        with self._read() as connection:
            return {row.key: row.answer for row in connection.execute(select(analyses))}

    def identify(self) -> CatalogIdentity:
        with self._read() as connection:
            return removals.identify(connection)

    def channels(self) -> list[RegisteredChannel]:
        with self._read() as connection:
            rows = connection.execute(select(channels).where(channels.c.active).order_by(channels.c.name)).all()
            held = _reserved(connection)
        return [channel_of(row, held) for row in rows]

    def channel(self, name: str) -> RegisteredChannel:
        with self._read() as connection:
            return channel_of(find_channel(connection, name), _reserved(connection))

    def refusals(self, workflow: Workflow) -> list[str]:
        with self._read() as connection:
            return registration.refusals(connection, workflow)

    def bindings(self) -> list[RegisteredBinding]:
        with self._read() as connection:
            rows = connection.execute(select(bindings).where(bindings.c.active).order_by(bindings.c.name))
            return [binding_of(row) for row in rows]

    def workflows(self) -> list[RegisteredWorkflow]:
        with self._read() as connection:
            rows = connection.execute(select(workflows).where(IS_IN_USE).order_by(workflows.c.name))
            return [RegisteredWorkflow(r.name, r.applied, r.paused, r.priority, r.document) for r in rows]

    def triggers(self, flow: str | None = None) -> list[RegisteredTrigger]:
        query = select(triggers, bindings.c.name.label("binding")).join_from(triggers, bindings)
        query = query.order_by(bindings.c.name, triggers.c.root, triggers.c.id)
        with self._read() as connection:
            rows = connection.execute(query if flow is None else query.where(bindings.c.name == flow))
            return [trigger_of(row) for row in rows]

    def firings(self, flow: str | None = None, limit: int = 100) -> list[Firing]:
        query = select(firings).order_by(firings.c.id.desc()).limit(limit)
        with self._read() as connection:
            rows = connection.execute(query if flow is None else query.where(firings.c.flow == flow))
            return [firing_of(row) for row in rows]

    def servers(self) -> list[Server]:
        with self._read() as connection:
            leaders = set(connection.execute(select(leases.c.owner)).scalars())
            rows = connection.execute(select(servers).order_by(servers.c.name))
            return [server_of(row, leaders) for row in rows]

    def costs(self, flow: str) -> dict[tuple[str, str], Json]:
        query = select(costs).join_from(costs, bindings).where(bindings.c.name == flow)
        with self._read() as connection:
            return {(row.task, row.variant): row.learnt for row in connection.execute(query)}

    def merging(self, paid: float = 0.0) -> list[Merging]:
        with self._read() as connection:
            return merge_costs.known(connection, paid)

    def facts(self) -> dict[str, FlowFacts]:
        with self._read() as connection:
            return self._facts.look(connection)

    def wished(self) -> dict[str, Any]:
        with self._read() as connection:
            return flow_facts.wished(connection)

    def content_rows(self) -> dict[str, int]:
        with self._read() as connection:
            return count_rows(connection)

    def versions(self, channel: str, since: int) -> list[int]:
        with self._read() as connection:
            of_channel = (blocks.c.channel_id == find_channel(connection, channel).id, blocks.c.visible >= since)
            arrived = select(blocks.c.visible).where(*of_channel, IS_SLOT, blocks.c.seq > 0)
            return sorted(connection.execute(arrived).scalars())

    def cursors(self, channel: str | None = None) -> list[Cursor]:
        query = _CURSORS.order_by(bindings.c.name, cursors.c.task, channels.c.name)
        with self._read() as connection:
            if channel is not None:
                query = query.where(cursors.c.channel_id == find_channel(connection, channel).id)
            return [cursor_of(row) for row in connection.execute(query)]

    def block(self, block: int) -> Block:
        with self._read() as connection:
            return find_block(connection, block)

    def blocks(self, channel: str | None = None, limit: int = 100) -> list[Block]:
        """The newest blocks first, in every state."""
        with self._read() as connection:
            if channel is None:
                return load_blocks(connection, BLOCKS.order_by(blocks.c.id.desc()).limit(limit))
            on_channel = BLOCKS.where(blocks.c.channel_id == find_channel(connection, channel).id)
            newest = on_channel.order_by(blocks.c.seq.desc(), blocks.c.id.desc()).limit(limit)
            return load_blocks(connection, newest)

    def filled(self, channel: str) -> list[Block]:
        """Every filled block of a channel, oldest first, without its files and what it reflects."""
        with self._read() as connection:
            found = find_channel(connection, channel)
            is_filled = (blocks.c.channel_id == found.id, blocks.c.state == BlockState.FILLED)
            rows = connection.execute(_OUTLINES.where(*is_filled).order_by(blocks.c.seq, blocks.c.id))
            return [outline_of(row, channel) for row in rows]

    def slots(self, channel: str, since: int, upto: int) -> list[Block]:
        """Every slot within (since, upto] that became visible, whatever became of it since."""
        with self._read() as connection:
            row = find_channel(connection, channel)
            within = (blocks.c.channel_id == row.id, blocks.c.seq > since, blocks.c.seq <= upto)
            visible = BLOCKS.where(*within, IS_SLOT, blocks.c.visible.is_not(None))
            return load_blocks(connection, visible.order_by(blocks.c.seq))

    def points(self, channel: str) -> set[int]:
        """Where runs that are under way read the channel: at its head when they were claimed."""
        with self._read() as connection:
            row = find_channel(connection, channel)
            was_there = (blocks.c.channel_id == row.id, blocks.c.visible <= runs.c.fence)
            newest = select(func.max(blocks.c.seq)).where(*was_there, blocks.c.state == BlockState.FILLED)
            each = select(newest.scalar_subquery()).where(runs.c.state.in_(AT_WORK))
            return {seq for seq in connection.execute(each).scalars() if seq is not None}

    def held(self, channel: str) -> set[int]:
        with self._read() as connection:
            return pins.held(connection, channel)

    def base_and_after(self, channel: str, at: int) -> list[Block]:
        """The newest filled base at or before `at`, and the filled deltas after it up to `at`."""
        with self._read() as connection:
            row = find_channel(connection, channel)
            upto = min(at, row.head_seq)
            base = _newest_base(connection, row, upto)
            if base is None:
                return []
            either = or_(blocks.c.kind == Kind.BASE, blocks.c.seq > base)
            between = (blocks.c.channel_id == row.id, blocks.c.seq >= base, blocks.c.seq <= upto)
            readable = BLOCKS.where(*between, either, blocks.c.state == BlockState.FILLED)
            return load_blocks(connection, readable.order_by(blocks.c.seq))

    def deltas(self, channel: str, since: int, upto: int) -> list[Block]:
        """The filled deltas within (since, upto]."""
        with self._read() as connection:
            row = find_channel(connection, channel)
            within = (blocks.c.channel_id == row.id, blocks.c.seq > since, blocks.c.seq <= min(upto, row.head_seq))
            filled = BLOCKS.where(*within, blocks.c.kind == Kind.DELTA, blocks.c.state == BlockState.FILLED)
            return load_blocks(connection, filled.order_by(blocks.c.seq))

    def links(self, channel: str, since: int) -> list[Link]:
        with self._read() as connection:
            row = find_channel(connection, channel)
            within = (blocks.c.channel_id == row.id, blocks.c.seq > since, blocks.c.seq <= row.head_seq)
            filled = (blocks.c.kind == Kind.DELTA, blocks.c.state == BlockState.FILLED)
            query = select(blocks.c.since, blocks.c.seq, blocks.c.visible).where(*within, *filled)
            found = connection.execute(query.order_by(blocks.c.seq)).all()
        return [Link(row.since, row.seq, row.visible / 1_000_000) for row in found]

    def position(self, channel: str, *, seq: int | None = None, version: int | None = None) -> Position:
        """The position at the newest filled slot not after `seq`, or not visible after `version`.

        Slots collected since count: what they held is known, though it may no longer be readable. Only
        input channels have versions; elsewhere the clock's reading when a block became visible is compared.
        Where the slot may have been forgotten, that is an error: the one before held something else.
        """
        with self._read() as connection:
            row = find_channel(connection, channel)
            if (seq is None or seq >= row.head_seq) and version is None:
                return head_of(row)
            found = _newest_visible(connection, row, seq, version)
            if found.seq != seq and found.seq < row.forgotten:
                raise Collected(
                    f"channel {channel} can no longer be read there: its history up to {row.forgotten} was forgotten; "
                    "to remember more, raise history under [upkeep]"
                )
            return position_of(found)

    def inserted(self, channel: str, keys: Collection[str]) -> dict[str, Block]:
        """The blocks that were inserted under these idempotency keys, by key."""
        with self._read() as connection:
            row = find_channel(connection, channel)
            under = (insert_keys.c.channel_id == row.id, insert_keys.c.key.in_(keys))
            keyed = connection.execute(select(insert_keys.c.key, insert_keys.c.block_id).where(*under))
            of = {row.key: row.block_id for row in keyed}
            wanted = BLOCKS.where(blocks.c.id.in_(set(of.values())), blocks.c.state != BlockState.RESERVED)
            found = {block.id: block for block in load_blocks(connection, wanted)} if of else {}
        return {key: found[block] for key, block in of.items() if block in found}

    def held_until(self, name: str) -> float | None:
        with self._read() as connection:
            return held_until(connection, name)

    def place(self, name: str) -> int | None:
        with self._read() as connection:
            return producers.find_offset(connection, name)

    def producers(self, channel: str, names: Collection[str]) -> dict[str, int]:
        with self._read() as connection:
            return producers.numbers(connection, channel, names)

    def run(self, run: int) -> Run:
        with self._read() as connection:
            return run_of(find_run(connection, run))

    def runs(self, *, state: RunState | None = None, subject: str | None = None, limit: int = 100) -> list[Run]:
        """The newest runs first."""
        query = select(runs).order_by(runs.c.id.desc()).limit(limit)
        if state is not None:
            query = query.where(runs.c.state == state)
        if subject is not None:
            query = query.where(runs.c.subject == subject)
        with self._read() as connection:
            return [run_of(row) for row in connection.execute(query)]

    def log(self, run: int) -> str:
        """What all attempts said, in their order."""
        with self._read() as connection:
            find_run(connection, run)
            texts = connection.execute(select(logs.c.text).where(logs.c.run_id == run).order_by(logs.c.attempt))
            return "\n".join(texts.scalars())

    def crowded(self, subjects: Collection[str], *, keep: int) -> list[str]:
        """Which of these have more runs than that; in the order of their names."""
        of_each = select(runs.c.subject).where(runs.c.subject.in_(subjects)).group_by(runs.c.subject)
        with self._read() as connection:
            more = of_each.having(func.count() > keep).order_by(runs.c.subject)
            return list(connection.execute(more).scalars())

    def readings(self, run: int) -> list[Reading]:
        with self._read() as connection:
            find_run(connection, run)
            of_run = _READINGS.where(run_reads.c.run_id == run).order_by(run_reads.c.task, channels.c.name)
            return [reading_of(row) for row in connection.execute(of_run)]

    def readers(self, channel: str, seq: int) -> list[Reading]:
        """The readings of finished runs that covered sequence number `seq` of a channel."""
        # Readings are recorded when a run commits, so those of other runs never get here.
        with self._read() as connection:
            on_channel = _READINGS.where(run_reads.c.channel_id == find_channel(connection, channel).id)
            after_start = or_(run_reads.c.since.is_(None), run_reads.c.since < seq)
            covering = on_channel.where(run_reads.c.upto >= seq, after_start)
            in_order = covering.order_by(run_reads.c.run_id, run_reads.c.task)
            return [reading_of(row) for row in connection.execute(in_order)]

    def written(self, run: int) -> list[Block]:
        with self._read() as connection:
            find_run(connection, run)
            return blocks_of_run(connection, run)

    def events(self, *, after: int = 0, run: int | None = None, limit: int = 100) -> list[Event]:
        query = select(events).where(events.c.id > after).order_by(events.c.id).limit(limit)
        if run is not None:
            query = query.where(events.c.run_id == run)
        with self._read() as connection:
            return [event_of(row) for row in connection.execute(query)]

    def named_files(self) -> set[str]:
        with self._read() as connection:
            return removals.named_files(connection)

    def list_newest_files(self, limit: int) -> list[str]:
        with self._read() as connection:
            return removals.list_newest_files(connection, limit)

    def list_named(self, paths: Collection[str]) -> set[str]:
        with self._read() as connection:
            return removals.list_named(connection, paths)

    def find_attempts(self, directories: Collection[str]) -> dict[str, Run]:
        with self._read() as connection:
            return removals.find_attempts(connection, directories)

    def list_marked(self) -> set[str]:
        with self._read() as connection:
            return removals.list_marked(connection)

    def list_due_removals(self, grace: Grace, limit: int) -> list[Removal]:
        with self._read() as connection:
            return removals.list_due(connection, self._now(connection), grace, limit)

    def active_directories(self) -> set[str]:
        with self._read() as connection:
            running = select(runs.c.directory).where(runs.c.state.in_(AT_WORK))
            return set(connection.execute(running).scalars())

    def close(self) -> None:
        self._engine.dispose()


def _reserved(connection: Connection) -> dict[int, int]:
    """How many slots are held, by channel id."""
    held = select(blocks.c.channel_id, func.count().label("slots")).where(IS_RESERVED).group_by(blocks.c.channel_id)
    return {row.channel_id: row.slots for row in connection.execute(held)}


def _newest_base(connection: Connection, channel: AnyRow, upto: int) -> int | None:
    bases = select(func.max(blocks.c.seq)).where(IS_READABLE_BASE, blocks.c.channel_id == channel.id)
    found: int | None = connection.execute(bases.where(blocks.c.seq <= upto)).scalar()
    return found


def _newest_visible(connection: Connection, channel: AnyRow, seq: int | None, version: int | None) -> AnyRow:
    placed = BLOCKS.where(blocks.c.channel_id == channel.id, blocks.c.visible.is_not(None))
    if seq is not None:
        placed = placed.where(blocks.c.seq <= max(seq, 0)).order_by(blocks.c.seq.desc())
    if version is not None:
        placed = placed.where(blocks.c.visible <= max(version, 0)).order_by(blocks.c.visible.desc())
    return connection.execute(placed.limit(1)).one()
