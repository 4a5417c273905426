"""Declared tables: from a query to a task with variants and the state channels that it needs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.describe import describe_operator
from tidemill.algebra.operators import Operator, ScanMode, list_scans, rename_columns
from tidemill.algebra.program import DeclaredQuery, RefreshMode, VariantName, name_input
from tidemill.algebra.properties import is_append_only
from tidemill.algebra.rewrite.passes import rewrite_query
from tidemill.algebra.sql import NotIncremental, TypedRelation, scan_channel, translate_query
from tidemill.algebra.sql.tables import find_table_names
from tidemill.algebra.stages import Stage, find_apply, resolve_stage, stage_to_sql
from tidemill.errors import WorkflowError
from tidemill.model.analysis import NO_KNOWLEDGE, Analyser, Analysis, AnalysisRequest, QueryRefused, SchemaKnowledge
from tidemill.model.block import BlockKind
from tidemill.model.change import RESERVED_COLUMNS, Append, Increment, Patch, Signed, Updates, Upsert
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.schema import Schema
from tidemill.model.stateful import Stateful, WindowTaskSpec
from tidemill.model.task import Code, Function, QueryText, ReadMode, Refresh, Sql, Task, TaskInput, TaskOutput, Variant
from tidemill.model.wave_steps import WaveStartSpec
from tidemill.model.workflow import WorkflowSpec, is_resolved, sort_tasks


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A compiled declared table."""

    task: Task
    channels: tuple[Channel, ...]  # the state channels of the table
    source: TypedRelation | None  # the columns that other queries may rely on; None if known only once it is written


Sources = Mapping[str, TypedRelation]


def compile_table(
    task: Task, sources: Sources, schema: Schema | None, analyser: Analyser = NO_KNOWLEDGE.analyser
) -> DeclaredTable:
    """Compile a declared query, in batch only if it must be; raises `WorkflowError` if Spark does not accept it."""
    table, declared_types = task.writes[0].port, {f.name: f.type for f in schema or ()}
    tables = {r.argument: sources[r.port] for r in task.reads if r.port in sources}
    try:
        root, types = _translate_operators(task, tables)
        obstacle = None
    except NotIncremental as reason:
        root, types, obstacle = None, {}, str(reason)
    analysis = _analyse_text(task, tables, root, analyser)
    if analysis is not None:
        obstacle, types = obstacle or analysis.obstacle, {f.name: f.type for f in analysis.schema}
        if root is not None and len(root.columns) != len(types):
            obstacle = obstacle or "its columns could not be resolved here"
    if root is None or obstacle is not None:
        known = None if analysis is None else scan_channel(table, declared_types or types)
        return DeclaredTable(_to_batch_task(task, obstacle or ""), (), known)
    if analysis is not None and root.columns != tuple(types):
        root = rename_columns(root, dict(zip(root.columns, types, strict=True)))
    query = DeclaredQuery(table, root)
    known_types = declared_types or {c: types.get(c, "") for c in root.columns}
    is_patched = isinstance(query.updates, Patch)
    source = scan_channel(table, known_types, query.key or (), is_append_only(root), is_patched)
    code = Refresh(query, table, RefreshMode.BATCH, describe_operator(root), schema, _find_query_text(task))
    variants = tuple(_build_variants(query, replace(code, types=_list_read_types(root, sources))))
    names = [state.channel for state in query.build_states().values()]
    states = tuple(Channel(n, ChannelRole.STATE, updates=Signed(), location=task.location) for n in names)
    return DeclaredTable(replace(task, variants=variants), states, source)


def _list_read_types(root: Operator, sources: Sources) -> dict[str, dict[str, str]]:
    """The types of exactly the columns that a query reads, by channel: its results depend on these."""
    columns: dict[str, set[str]] = {}
    for scan in list_scans(root):
        columns.setdefault(scan.channel, set()).update(scan.columns)
    return {c: {n: sources[c].types.get(n, "") for n in sorted(names)} for c, names in sorted(columns.items())}


def _translate_operators(task: Task, tables: Sources) -> tuple[Operator, Mapping[str, str]]:
    """The operators of a query or relation over channels, and the types of their columns as far as they are known."""
    code = task.variant.code
    try:
        if isinstance(code, Sql):
            translated = translate_query(code.query, tables)
        else:
            translated = resolve_stage(_get_stage(code), tables)
    except (NotIncremental, WorkflowError):
        raise
    except Exception as error:  # Spark may accept constructs that this translator does not support
        raise NotIncremental(f"it could not be translated: {type(error).__name__}") from error
    root = rewrite_query(translated.op)
    unread = {r.port for r in task.reads} - {scan.channel for scan in list_scans(root)}
    if unread:
        raise NotIncremental(f"it names {min(unread)} but does not depend on it")
    return root, translated.types


def _analyse_text(task: Task, tables: Sources, root: Operator | None, analyser: Analyser) -> Analysis | None:
    """Spark's analysis of a query's text; None if it has no text or reads columns of unknown types."""
    text = _find_query_text(task)
    schemas = {name: source.find_schema() for name, source in tables.items()}
    known = {name: schema for name, schema in schemas.items() if schema is not None}
    if text is None or len(known) < len(task.reads):
        return None
    query = AnalysisRequest(text.query, known, root, text.tables, "" if root is None else describe_operator(root))
    return _call_analyser(task, query, analyser)


def _call_analyser(task: Task, query: AnalysisRequest, analyser: Analyser) -> Analysis | None:
    try:
        return analyser.analyse_query(query)
    except QueryRefused as error:
        raise WorkflowError([f"{task.location}: query {task.name!r}: {error}"]) from error


def _to_batch_task(task: Task, reason: str) -> Task:
    """The task with a single variant, which runs the query's text unchanged."""
    text = _find_query_text(task)
    if text is None:
        apply = find_apply(_get_stage(task.variant.code))
        problem = f"apply() needs a table that can be refreshed incrementally, and this cannot: {reason}"
        raise WorkflowError([f"{apply.location if apply else task.location}: {problem}"])
    return replace(task, variants=(replace(task.variant, code=Sql(text.query)),), batch_reason=reason)


def _get_stage(code: Code) -> Stage:
    assert isinstance(code, Refresh)
    stage: Stage = code.query
    return stage


_CONSUMED = {ScanMode.CHANGE: ReadMode.NEW, ScanMode.NEW: ReadMode.ALL, ScanMode.OLD: ReadMode.OLD}
_UNCONSUMED = {ScanMode.OLD: ReadMode.OLD}
"""How an incremental variant reads a channel, depending on whether it consumes the channel's changes."""


def _build_variants(query: DeclaredQuery, batch: Refresh) -> Iterator[Variant]:
    """A variant for each refresh mode of the query, given the code of the batch mode.

    A query of several channels also has an incremental variant for each, which consumes the changes of this channel and
    reads the others as last consumed.
    """
    states = query.build_states().values()
    contents = tuple(TaskInput(name_input(c, ScanMode.NEW), c, ReadMode.ALL, advance=True) for c in query.channels)
    bases = tuple(TaskOutput(c, c, BlockKind.BASE) for c in (*(s.channel for s in states), query.table))
    yield Variant(RefreshMode.BATCH, contents, bases, batch)
    if states:
        results = tuple(replace(w, void=w.port != query.table) for w in bases)
        yield Variant(RefreshMode.RECOMPUTE, contents, results, replace(batch, mode=RefreshMode.RECOMPUTE))
    state_reads = [TaskInput(name_input(s.channel, ScanMode.OLD), s.channel, ReadMode.ALL) for s in states]
    updates = {s.channel: s.updates for s in states} | {query.table: query.updates}
    deltas = tuple(TaskOutput(c, c, BlockKind.DELTA, u) for c, u in updates.items())
    code = replace(batch, mode=RefreshMode.INCREMENTAL, query_text=None)
    for consumed in (None, *(query.channels if len(query.channels) > 1 else ())):
        modes = {c: _CONSUMED if consumed in (None, c) else _UNCONSUMED for c in query.channels}
        reads = (TaskInput(name_input(c, scan), c, mode) for c in modes for scan, mode in modes[c].items())
        yield Variant(str(VariantName(RefreshMode.INCREMENTAL, consumed)), (*reads, *state_reads), deltas, code)


def _find_query_text(task: Task) -> QueryText | None:
    """The SQL text that computes the full result; None for a relation with a user's group function."""
    code, tables = task.variant.code, {r.argument: r.port for r in task.reads}
    if isinstance(code, Sql):
        return QueryText(code.query, tables)
    stage = _get_stage(code)
    return None if find_apply(stage) is not None else QueryText(stage_to_sql(stage), tables)


def compile_workflow(
    name: str, channels: Sequence[Channel], bindings: Sequence[BoundFlow], knowledge: SchemaKnowledge = NO_KNOWLEDGE
) -> WorkflowSpec:
    """A workflow with its declared tables compiled in dependency order, and their state channels."""
    known = {c.name: c for c in channels}
    names = {*known, *(w.port for b in bindings for t in b.tasks for w in t.writes)}
    bindings = [replace(b, tasks=tuple(_resolve_reads(t, names) for t in b.tasks)) for b in bindings]
    sources = {c.name: _build_source(c.name, c.updates, c.schema) for c in channels if c.schema is not None}
    compiled: dict[str, DeclaredTable] = {}
    problems: list[str] = []
    ordered = sort_tasks(t for b in bindings for t in b.tasks)
    needed = _find_needed_channels(ordered)
    updates: dict[str, Updates] = {t.writes[0].port: Signed() for t in ordered if t.refresh is not None}
    updates |= {c.name: c.updates for c in channels if not isinstance(c.updates, Append)}
    resolved: dict[int, Task] = {}  # stateful tasks with the columns that they read
    implied: dict[str, Channel] = {}  # by stateful tasks
    for task in ordered:
        table = task.writes[0].port if task.writes else ""
        try:
            if isinstance(task.variant.code, Stateful):
                resolved[id(task)] = stateful = _resolve_columns(task, known, updates, sources)
                for channel in (c for c in _list_state_channels(stateful) if c.name not in known):
                    known[channel.name] = implied[channel.name] = channel
                    updates[channel.name] = channel.updates
                    if channel.schema is not None and is_resolved(stateful):
                        sources[channel.name] = _build_source(channel.name, channel.updates, channel.schema)
            elif task.refresh is None:
                sources |= _infer_outputs(task, needed, updates, sources, knowledge)
            else:
                schema = known[table].schema if table in known else None
                compiled[table] = compile_table(task, sources, schema, knowledge.analyser)
        except WorkflowError as error:
            problems += error.problems
            if task.refresh is not None:
                compiled[table] = compile_table(task, sources, None)
        source = compiled[table].source if table in compiled else None
        if source is not None:
            sources[table] = source
    if problems:
        raise WorkflowError(problems)
    tasks = {id(t): t if t.refresh is None else compiled[t.writes[0].port].task for t in ordered} | resolved
    bindings = [replace(b, tasks=tuple(tasks[id(t)] for t in b.tasks)) for b in bindings]
    incremental = {table for table, plan in compiled.items() if len(plan.task.variants) > 1}
    signed = (
        replace(c, updates=updates[c.name]) if c.name in incremental else c for c in (*channels, *implied.values())
    )
    states = (c for plan in compiled.values() for c in plan.channels)
    return WorkflowSpec(name, (*signed, *_list_implied_channels(bindings, known), *states), tuple(bindings))


def _resolve_reads(task: Task, names: Collection[str]) -> Task:
    """A query's reads bound to channels, ignoring case; if it could not be parsed, other names are no tables."""
    code = task.variant.code
    if not isinstance(code, Sql) or all(r.port in names for r in task.reads):
        return task
    by_lower = {name.lower(): name for name in sorted(names)}
    reads = [r if r.port in names else replace(r, port=by_lower.get(r.port.lower(), r.port)) for r in task.reads]
    if not find_table_names(code.query).is_certain:
        reads = [r for r in reads if r.port in names]
    return replace(task, variants=(replace(task.variant, reads=tuple(reads)),))


def _list_implied_channels(bindings: Sequence[BoundFlow], known: Mapping[str, Channel]) -> Iterator[Channel]:
    """Channels that tasks write and that are not declared. A declared table gives its changes as signed rows."""
    names = set(known)
    for task in (t for b in bindings for t in b.tasks):
        for write in task.writes:
            is_state = isinstance(task.variant.code, Refresh) and write.port != task.variant.code.table
            if write.port not in names and not is_state:
                names.add(write.port)
                updates = Append() if task.refresh is None else Signed()
                yield Channel(write.port, ChannelRole.DERIVED, updates=updates, location=task.location)


def _find_needed_channels(ordered: Sequence[Task]) -> set[str]:
    """The channels whose columns declared tables, windows and waves depend on, also through programmed tasks."""
    needed: set[str] = set()
    for task in reversed(ordered):
        depends = task.refresh is not None or isinstance(task.variant.code, WindowTaskSpec | WaveStartSpec)
        if depends or any(w.port in needed for w in task.writes):
            needed |= {r.port for r in task.reads}
    return needed


def _infer_outputs(
    task: Task, needed: Collection[str], updates: Mapping[str, Updates], sources: Sources, knowledge: SchemaKnowledge
) -> dict[str, TypedRelation]:
    """The undeclared columns that a programmed task writes, if needed: from Spark's analysis, else as recorded."""
    unknown = [w for w in task.writes if w.port in needed and w.port not in {*sources, *task.state_ports}]
    if not unknown and not isinstance(task.variant.code, Sql):
        return {}
    inferred = _infer_schemas(task, updates, sources, knowledge.analyser) or {}
    recorded = {name: k.schema for name, k in knowledge.observed_schemas.items() if k.writer == task.compute_identity()}
    schemas = ((w.port, inferred.get(w.argument) or recorded.get(w.port)) for w in unknown)
    known = ((port, schema) for port, schema in schemas if schema is not None)
    return {port: _build_source(port, updates.get(port, Append()), schema) for port, schema in known}


def _infer_schemas(
    task: Task, updates: Mapping[str, Updates], sources: Sources, analyser: Analyser
) -> Mapping[str, Schema] | None:
    """Spark's analysis of the columns that a programmed task returns."""
    code = task.variant.code
    inputs: dict[str, Schema] = {}
    for read in task.reads:
        schema = sources[read.port].find_schema() if read.port in sources else None
        if schema is None:
            return None
        delta = updates.get(read.port, Append()).build_delta_schema(schema)
        inputs[read.argument] = delta if read.mode is ReadMode.NEW else schema
    if isinstance(code, Function):
        return analyser.infer_outputs(task, inputs)
    analysis = _call_analyser(task, AnalysisRequest(code.query, inputs), analyser) if isinstance(code, Sql) else None
    if analysis is None:
        return None
    rows = Schema(tuple(f for f in analysis.schema if f.name not in RESERVED_COLUMNS))
    return {w.argument: rows for w in task.writes}


def _build_source(channel: str, updates: Updates, schema: Schema) -> TypedRelation:
    unique = updates.key if isinstance(updates, Upsert | Increment) else ()
    return scan_channel(channel, {f.name: f.type for f in schema}, unique, append_only=isinstance(updates, Append))


def _resolve_columns(
    task: Task, known: Mapping[str, Channel], updates: Mapping[str, Updates], sources: Sources
) -> Task:
    """Windows and waves with the columns of their events, if these are declared or known otherwise."""
    code, port = task.variant.code, task.reads[0].port
    source = known.get(port) or Channel(port, ChannelRole.DERIVED, updates=updates.get(port, Append()))
    schema = source.schema or (sources[port].find_schema() if port in sources else None)
    if not isinstance(code, WindowTaskSpec | WaveStartSpec) or schema is None:
        return task
    bound = code.bind_schema(source.updates.build_delta_schema(schema), is_input=source.role is ChannelRole.INPUT)
    return replace(task, variants=(replace(task.variant, code=bound),))


def _list_state_channels(task: Task) -> Iterator[Channel]:
    """A channel for each kind of state and each output."""
    code = task.variant.code
    assert isinstance(code, Stateful)
    for write in task.writes:
        if (state := code.states.get(write.argument)) is not None:
            yield Channel(write.port, ChannelRole.STATE, state.schema, Upsert(state.key), task.location)
        else:
            yield Channel(write.port, ChannelRole.DERIVED, code.output_schemas[write.argument], Append(), task.location)
