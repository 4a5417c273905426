"""Declared tables: from a query to a task with variants, and the state channels it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.describe import described
from tidemill.algebra.operators import Operator, Scan, rebuilt
from tidemill.algebra.program import Query, Way
from tidemill.algebra.properties import grows
from tidemill.algebra.simplify import narrowed
from tidemill.algebra.sql import NotIncremental, Source, Translated, translate
from tidemill.algebra.stages import Stage, resolve, text_of_stage
from tidemill.algebra.stateful import with_states
from tidemill.model.block import Kind
from tidemill.model.change import Append, Increment, Signed, Upsert
from tidemill.model.channel import Channel, Role
from tidemill.model.flow import Binding
from tidemill.model.schema import Schema
from tidemill.model.task import Code, Mode, Read, Refresh, Sql, Task, Variant, Write
from tidemill.model.workflow import Workflow, in_order

NEW, OLD, CHANGE = "@new", "@old", "@change"
"""Under these names, after the channel's, a refresh sees its content now and before, and its change."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared table, worked out."""

    task: Task
    channels: tuple[Channel, ...]  # the state it keeps
    source: Source | None  # what other queries may know of it; None if its columns are known only once it is written


def declare(task: Task, sources: Mapping[str, Source], schema: Schema | None) -> Declared:
    """Work out a declared query; one that cannot be incremental keeps its one variant, and the reason."""
    given = {r.argument: sources[r.port] for r in task.reads if r.port in sources}
    try:
        found = _translated(task.variant.code, given)
    except NotIncremental as reason:
        return Declared(_in_batch(task, str(reason)), (), None)
    root = narrowed(_on_channels(found.root, {r.argument: r.port for r in task.reads}))
    query = Query(task.writes[0].port, root)
    types = {c: found.types.get(c, "") for c in root.columns}
    source = Source(types, query.key or (), append=grows(root))
    return Declared(with_variants(task, query, schema), state_channels(task, query), source)


def _translated(code: Code, sources: Mapping[str, Source]) -> Translated:
    """The operators of a query, or of a relation whose columns become known only now."""
    return translate(code.query, sources) if isinstance(code, Sql) else resolve(_stage(code), sources)


def _in_batch(task: Task, because: str) -> Task:
    """The task with one variant, which runs the query's text as it stands."""
    code = task.variant.code
    text = code if isinstance(code, Sql) else Sql(text_of_stage(_stage(code), because))
    return replace(task, variants=(replace(task.variant, code=text),), batch_because=because)


def _stage(code: Code) -> Stage:
    assert isinstance(code, Refresh)
    stage: Stage = code.query
    return stage


def with_variants(task: Task, query: Query, schema: Schema | None) -> Task:
    """The task with a variant for each way to run the query."""
    all_of_it = _incremental(query, schema, query.channels)
    sides = [_incremental(query, schema, (c,)) for c in query.channels] if len(query.channels) > 1 else []
    recompute = [_recompute(query, schema)] if query.states() else []
    return replace(task, variants=(_batch(query, schema), *recompute, all_of_it, *sides))


def state_channels(task: Task, query: Query) -> tuple[Channel, ...]:
    return tuple(
        Channel(s.channel, Role.STATE, updates=Signed(), location=task.location) for s in query.states().values()
    )  # fmt: skip


def worked_out(name: str, channels: Sequence[Channel], bindings: Sequence[Binding]) -> Workflow:
    """A workflow with its declared tables worked out, those first that others read, and their state channels."""
    channels, bindings = with_states(channels, bindings)
    known = {c.name: c for c in channels}
    sources = {c.name: _source(c) for c in channels if c.schema is not None}
    found: dict[str, Declared] = {}
    for task in in_order(t for b in bindings for t in b.tasks):
        if task.refresh is not None:
            table = task.writes[0].port
            made = declare(task, sources, known[table].schema if table in known else None)
            found[table] = made
            if made.source is not None:
                sources[table] = _told(made.source, sources.get(table))
    tables = {t: d.task for t, d in found.items()}
    changed = tuple(replace(b, tasks=tuple(_worked_out(t, tables) for t in b.tasks)) for b in bindings)
    given = tuple(_giving_signed_rows(c) if _is_kept(c, found) else c for c in channels)
    states = (c for d in found.values() for c in d.channels)
    return Workflow(name, (*given, *_implied(changed, known), *states), changed)


def _told(worked_out: Source, declared: Source | None) -> Source:
    """What is known of a table whose schema was declared: the types are as declared, the rest is the query's."""
    return worked_out if declared is None else replace(worked_out, columns=declared.columns)


def _is_kept(channel: Channel, found: Mapping[str, Declared]) -> bool:
    return channel.name in found and len(found[channel.name].task.variants) > 1


def _giving_signed_rows(channel: Channel) -> Channel:
    """A table declared with a schema and no more gives its changes as those without do."""
    return replace(channel, updates=Signed()) if isinstance(channel.updates, Append) else channel


def _worked_out(task: Task, tables: Mapping[str, Task]) -> Task:
    return task if task.refresh is None else tables[task.writes[0].port]


def _implied(bindings: Sequence[Binding], known: Mapping[str, Channel]) -> Iterator[Channel]:
    """Channels that tasks write and nobody declared. A declared table gives its changes as signed rows."""
    seen = set(known)
    for task in (t for b in bindings for t in b.tasks):
        for write in task.writes:
            kept = isinstance(task.variant.code, Refresh) and write.port != task.variant.code.table
            if write.port not in seen and not kept:
                seen.add(write.port)
                updates = Append() if task.refresh is None else Signed()
                yield Channel(write.port, Role.DERIVED, updates=updates, location=task.location)


def _source(channel: Channel) -> Source:
    assert channel.schema is not None
    columns = {f.name: f.type for f in channel.schema}
    unique = channel.updates.key if isinstance(channel.updates, Upsert | Increment) else ()
    return Source(columns, unique, isinstance(channel.updates, Append))


def _on_channels(op: Operator, ports: Mapping[str, str]) -> Operator:
    if isinstance(op, Scan):
        return replace(op, channel=ports[op.channel])
    return rebuilt(op, lambda child: _on_channels(child, ports))


def _batch(query: Query, schema: Schema | None) -> Variant:
    reads = tuple(Read(c + NEW, c, Mode.ALL, advance=True) for c in query.channels)
    kept = tuple(Write(s.channel, s.channel, Kind.BASE) for s in query.states().values())
    code = Refresh(query, query.table, Way.BATCH, described(query.root), schema)
    return Variant(Way.BATCH, reads, (*kept, Write(query.table, query.table, Kind.BASE)), code)


def _recompute(query: Query, schema: Schema | None) -> Variant:
    batch = _batch(query, schema)
    writes = tuple(replace(w, void=w.port != query.table) for w in batch.writes)
    code = Refresh(query, query.table, Way.RECOMPUTE, described(query.root), schema)
    return Variant(Way.RECOMPUTE, batch.reads, writes, code)


def only(channel: str) -> str:
    """The name of the variant that takes in what changed on one channel, and leaves the others for later."""
    return f"{Way.INCREMENTAL}:{channel}"


def _incremental(query: Query, schema: Schema | None, taken: tuple[str, ...]) -> Variant:
    """What changed on these channels; of the others, what the table reflects already."""
    modes = {c: _MODES if c in taken else _MODES[-1:] for c in query.channels}
    reads = tuple(Read(c + suffix, c, mode) for c in query.channels for suffix, mode in modes[c])
    name = str(Way.INCREMENTAL) if taken == query.channels else only(taken[0])
    states = query.states().values()
    kept = tuple(Read(s.channel + OLD, s.channel, Mode.ALL) for s in states)
    writes = tuple(Write(s.channel, s.channel, Kind.DELTA, s.updates) for s in states)
    result = Write(query.table, query.table, Kind.DELTA, query.updates)
    code = Refresh(query, query.table, Way.INCREMENTAL, described(query.root), schema)
    return Variant(name, (*reads, *kept), (*writes, result), code)


_MODES = ((CHANGE, Mode.NEW), (NEW, Mode.ALL), (OLD, Mode.OLD))
