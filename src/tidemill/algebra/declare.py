"""Declared tables: from a query to a task with variants, and the state channels it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.describe import described
from tidemill.algebra.operators import Operator, Scan, rebuilt, rename, scans
from tidemill.algebra.program import Query, Way
from tidemill.algebra.properties import grows
from tidemill.algebra.prune import with_needed_columns
from tidemill.algebra.simplify import narrowed
from tidemill.algebra.sql import NotIncremental, Source, Translated, translate
from tidemill.algebra.sql.tables import table_names
from tidemill.algebra.stages import Stage, find_text, resolve, text_of_stage
from tidemill.algebra.stateful import with_states
from tidemill.errors import WorkflowError
from tidemill.model.analysis import NOTHING_KNOWN, Analyser, Analysis, Knowledge, QueryRefused, QueryToAnalyse
from tidemill.model.block import Kind
from tidemill.model.change import RESERVED, Append, Increment, Signed, Updates, Upsert
from tidemill.model.channel import Channel, Role
from tidemill.model.flow import Binding
from tidemill.model.schema import Field, Schema
from tidemill.model.task import Code, Function, Mode, QueryText, Read, Refresh, Sql, Task, Variant, Write
from tidemill.model.workflow import Workflow, in_order

NEW, OLD, CHANGE = "@new", "@old", "@change"
"""Under these names, after the channel's, a refresh sees its content now and before, and its change."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared table, worked out."""

    task: Task
    channels: tuple[Channel, ...]  # the state it keeps
    source: Source | None  # what other queries may know of it; None if its columns are known only once it is written


def declare(
    task: Task, sources: Mapping[str, Source], schema: Schema | None, analyser: Analyser = NOTHING_KNOWN.analyser
) -> Declared:
    """Work out a declared query; one that cannot be incremental keeps its one variant, and the reason.

    Raises `WorkflowError` if Spark does not accept the query.
    """
    given = {r.argument: sources[r.port] for r in task.reads if r.port in sources}
    try:
        root, types = _operators(task, given)
        obstacle = None
    except NotIncremental as reason:
        root, types, obstacle = None, {}, str(reason)
    analysis = _analysed(task, given, root, analyser)
    if analysis is not None:
        obstacle = obstacle or analysis.obstacle or _columns_differ(root, analysis.schema)
        types = {f.name: f.type for f in analysis.schema}
    if root is None or obstacle is not None:
        known = None if analysis is None else Source(types)
        return Declared(_in_batch(task, obstacle or ""), (), known)
    if analysis is not None:
        root = rename(root, dict(zip(root.columns, types, strict=True))) if root.columns != tuple(types) else root
    query = Query(task.writes[0].port, root)
    source = Source({c: types.get(c, "") for c in root.columns}, query.key or (), append=grows(root))
    made = with_variants(task, query, schema)
    typed = replace(made, variants=tuple(_with_types(v, query, sources) for v in made.variants))
    return Declared(typed, state_channels(task, query), source)


def _with_types(variant: Variant, query: Query, sources: Mapping[str, Source]) -> Variant:
    """The variant with the types of the columns that it reads, and of no others: these it depends on."""
    read: dict[str, set[str]] = {}
    for scan in scans(query.root):
        read.setdefault(scan.channel, set()).update(scan.columns)
    types = {c: {n: sources[c].columns.get(n, "") for n in sorted(names)} for c, names in sorted(read.items())}
    assert isinstance(variant.code, Refresh)
    return replace(variant, code=replace(variant.code, types=types))


def _operators(task: Task, given: Mapping[str, Source]) -> tuple[Operator, Mapping[str, str]]:
    """The operators of a query over channels, and the types of their columns as far as they can be told here."""
    found = _translated(task.variant.code, given)
    whole = narrowed(_on_channels(found.root, {r.argument.lower(): r.port for r in task.reads}))
    root = with_needed_columns(whole)
    unread = {r.port for r in task.reads} - {scan.channel for scan in scans(root)}
    if unread:
        raise NotIncremental(f"it names {min(unread)} but depends on nothing of it")
    return root, found.types


def _analysed(task: Task, given: Mapping[str, Source], root: Operator | None, analyser: Analyser) -> Analysis | None:
    """What Spark says of a query's text; None if it has none, or not all the columns that it reads are known."""
    text = _text(task)
    unknown = len(given) < len(task.reads) or any("" in s.columns.values() for s in given.values())
    if text is None or unknown:
        return None
    tables = {name: Schema(tuple(Field(c, t) for c, t in s.columns.items())) for name, s in given.items()}
    query = QueryToAnalyse(text.query, tables, root, text.tables, "" if root is None else described(root))
    return _ask(task, query, analyser)


def _ask(task: Task, query: QueryToAnalyse, analyser: Analyser) -> Analysis | None:
    try:
        return analyser.analyse(query)
    except QueryRefused as error:
        raise WorkflowError([f"{task.location}: query {task.name!r}: {error}"]) from error


def _columns_differ(root: Operator | None, schema: Schema) -> str | None:
    if root is None or len(root.columns) == len(schema.names):
        return None
    return "its columns could not be resolved here"


def _translated(code: Code, sources: Mapping[str, Source]) -> Translated:
    """The operators of a query, or of a relation whose columns become known only now."""
    if not isinstance(code, Sql):
        return resolve(_stage(code), sources)
    try:
        return translate(code.query, sources)
    except NotIncremental:
        raise
    except Exception as error:  # Spark may well accept what nobody here thought of
        raise NotIncremental(f"it could not be read: {type(error).__name__}") from error


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
    text = _text(task)
    all_of_it = _incremental(query, schema, query.channels)
    sides = [_incremental(query, schema, (c,)) for c in query.channels] if len(query.channels) > 1 else []
    recompute = [_recompute(query, schema, text)] if query.states() else []
    return replace(task, variants=(_batch(query, schema, text), *recompute, all_of_it, *sides))


def _text(task: Task) -> QueryText | None:
    """The text that computes the whole result; a relation with a user's function of groups has none."""
    code = task.variant.code
    text = code.query if isinstance(code, Sql) else find_text(_stage(code))
    return None if text is None else QueryText(text, {r.argument: r.port for r in task.reads})


def state_channels(task: Task, query: Query) -> tuple[Channel, ...]:
    return tuple(
        Channel(s.channel, Role.STATE, updates=Signed(), location=task.location) for s in query.states().values()
    )  # fmt: skip


def worked_out(
    name: str, channels: Sequence[Channel], bindings: Sequence[Binding], knowledge: Knowledge = NOTHING_KNOWN
) -> Workflow:
    """A workflow with its declared tables worked out, those first that others read, and their state channels."""
    channels, bindings = with_states(channels, bindings)
    known = {c.name: c for c in channels}
    names = {*known, *(w.port for b in bindings for t in b.tasks for w in t.writes)}
    bindings = [replace(b, tasks=tuple(_reading_known(t, names) for t in b.tasks)) for b in bindings]
    sources = {c.name: _source(c, c.schema) for c in channels if c.schema is not None}
    found: dict[str, Declared] = {}
    problems: list[str] = []
    ordered = in_order(t for b in bindings for t in b.tasks)
    asked = _channels_asked_for(ordered)
    declared = _Channels(known, frozenset(t.writes[0].port for t in ordered if t.refresh is not None))
    for task in ordered:
        if task.refresh is None:
            try:
                sources |= _outputs(task, asked, declared, sources, knowledge)
            except WorkflowError as error:
                problems += error.problems
            continue
        table = task.writes[0].port
        try:
            made = declare(task, sources, known[table].schema if table in known else None, knowledge.analyser)
        except WorkflowError as error:
            problems += error.problems
            made = declare(task, sources, None)
        found[table] = made
        if made.source is not None:
            sources[table] = _told(made.source, sources.get(table))
    if problems:
        raise WorkflowError(problems)
    tables = {t: d.task for t, d in found.items()}
    changed = tuple(replace(b, tasks=tuple(_worked_out(t, tables) for t in b.tasks)) for b in bindings)
    given = tuple(_giving_signed_rows(c) if _is_kept(c, found) else c for c in channels)
    states = (c for d in found.values() for c in d.channels)
    return Workflow(name, (*given, *_implied(changed, known), *states), changed)


def _reading_known(task: Task, names: Collection[str]) -> Task:
    """A query's reads attached to the channels that its names mean, whatever their case.

    Of a query that could not be parsed what is no channel was no table.
    """
    code = task.variant.code
    if not isinstance(code, Sql) or all(r.port in names for r in task.reads):
        return task
    by_lower = {name.lower(): name for name in sorted(names)}
    reads = [r if r.port in names else replace(r, port=by_lower.get(r.port.lower(), r.port)) for r in task.reads]
    if not table_names(code.query).certain:
        reads = [r for r in reads if r.port in names]
    return replace(task, variants=(replace(task.variant, reads=tuple(reads)),))


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


def _channels_asked_for(ordered: Sequence[Task]) -> set[str]:
    """The channels whose columns declared tables depend on, by way of programmed tasks, too."""
    asked: set[str] = set()
    for task in reversed(ordered):
        if task.refresh is not None or any(w.port in asked for w in task.writes):
            asked |= {r.port for r in task.reads}
    return asked


@dataclass(frozen=True, slots=True)
class _Channels:
    """What is declared of a workflow's channels."""

    declared: Mapping[str, Channel]
    tables: frozenset[str]  # kept by declared queries

    def updates(self, name: str) -> Updates:
        """How readers are given the changes of a channel."""
        known = self.declared.get(name)
        given = Append() if known is None else known.updates
        return Signed() if name in self.tables and isinstance(given, Append) else given


def _outputs(
    task: Task,
    asked: Collection[str],
    channels: _Channels,
    sources: Mapping[str, Source],
    knowledge: Knowledge,
) -> dict[str, Source]:
    """The columns of what a programmed task writes, where somebody asks for them and nobody declares them.

    They are as Spark says, else as learnt from a block. Raises `WorkflowError` for a query that Spark does not accept.
    """
    unknown = [w for w in task.writes if w.port in asked and w.port not in sources and w.port not in task.states]
    if not unknown and not isinstance(task.variant.code, Sql):
        return {}
    inferred = _inferred(task, channels, sources, knowledge.analyser) or {}
    learnt = {name: k.schema for name, k in knowledge.learnt.items() if k.writer == task.identity()}
    found = {w.port: inferred.get(w.argument) or learnt.get(w.port) for w in unknown}
    return {
        port: _source(channels.declared.get(port) or Channel(port, Role.DERIVED), schema)
        for port, schema in found.items()
        if schema is not None
    }


def _inferred(
    task: Task, channels: _Channels, sources: Mapping[str, Source], analyser: Analyser
) -> Mapping[str, Schema] | None:
    """What Spark says of the columns that a programmed task returns."""
    code = task.variant.code
    known = all(r.port in sources and "" not in sources[r.port].columns.values() for r in task.reads)
    if not isinstance(code, Function | Sql) or not known:
        return None
    inputs = {r.argument: _given(r, channels, sources[r.port]) for r in task.reads}
    if isinstance(code, Function):
        return analyser.infer_outputs(task, inputs)
    analysis = _ask(task, QueryToAnalyse(code.query, inputs), analyser)
    if analysis is None:
        return None
    rows = Schema(tuple(f for f in analysis.schema if f.name not in RESERVED))
    return {w.argument: rows for w in task.writes}


def _given(read: Read, channels: _Channels, source: Source) -> Schema:
    """The columns that a task is given of a channel."""
    schema = Schema(tuple(Field(c, t) for c, t in source.columns.items()))
    return channels.updates(read.port).delta_schema(schema) if read.mode is Mode.NEW else schema


def _source(channel: Channel, schema: Schema) -> Source:
    columns = {f.name: f.type for f in schema}
    unique = channel.updates.key if isinstance(channel.updates, Upsert | Increment) else ()
    return Source(columns, unique, isinstance(channel.updates, Append))


def _on_channels(op: Operator, ports: Mapping[str, str]) -> Operator:
    if isinstance(op, Scan):
        return replace(op, channel=ports[op.channel.lower()])
    return rebuilt(op, lambda child: _on_channels(child, ports))


def _batch(query: Query, schema: Schema | None, text: QueryText | None) -> Variant:
    reads = tuple(Read(c + NEW, c, Mode.ALL, advance=True) for c in query.channels)
    kept = tuple(Write(s.channel, s.channel, Kind.BASE) for s in query.states().values())
    code = Refresh(query, query.table, Way.BATCH, described(query.root), schema, text)
    return Variant(Way.BATCH, reads, (*kept, Write(query.table, query.table, Kind.BASE)), code)


def _recompute(query: Query, schema: Schema | None, text: QueryText | None) -> Variant:
    batch = _batch(query, schema, text)
    writes = tuple(replace(w, void=w.port != query.table) for w in batch.writes)
    code = Refresh(query, query.table, Way.RECOMPUTE, described(query.root), schema, text)
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
