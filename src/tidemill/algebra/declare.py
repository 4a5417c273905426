"""Declared tables: from a query to a task with variants and the state channels that it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.describe import describe_operator
from tidemill.algebra.operators import Operator, ScanMode, list_scans, rename_columns
from tidemill.algebra.program import DeclaredQuery, RefreshMode, VariantName, name_input
from tidemill.algebra.properties import is_append_only
from tidemill.algebra.rewrite.passes import rewrite_query
from tidemill.algebra.sql import NotIncremental, TypedRelation, scan_channel, translate_query
from tidemill.algebra.sql.tables import find_table_names
from tidemill.algebra.stages import Stage, find_stage_sql, resolve_stage, stage_to_sql
from tidemill.algebra.stateful import add_state_channels
from tidemill.errors import WorkflowError
from tidemill.model.analysis import NO_KNOWLEDGE, Analyser, Analysis, AnalysisRequest, QueryRefused, SchemaKnowledge
from tidemill.model.block import BlockKind
from tidemill.model.change import RESERVED_COLUMNS, Append, Increment, Signed, Updates, Upsert
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.schema import Field, Schema
from tidemill.model.task import Code, Function, QueryText, ReadMode, Refresh, Sql, Task, TaskInput, TaskOutput, Variant
from tidemill.model.workflow import WorkflowSpec, sort_tasks


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A compiled declared table."""

    task: Task
    channels: tuple[Channel, ...]  # the state channels of the table
    source: TypedRelation | None  # the columns that other queries may rely on; None if known only once it is written


def compile_table(
    task: Task, sources: Mapping[str, TypedRelation], schema: Schema | None, analyser: Analyser = NO_KNOWLEDGE.analyser
) -> DeclaredTable:
    """Compile a declared query; one that cannot be incremental keeps a single variant and the reason.

    Raises `WorkflowError` if Spark does not accept the query.
    """
    table, declared_types = task.writes[0].port, {f.name: f.type for f in schema or ()}
    tables = {r.argument: sources[r.port] for r in task.reads if r.port in sources}
    try:
        root, types = _translate_operators(task, tables)
        obstacle = None
    except NotIncremental as reason:
        root, types, obstacle = None, {}, str(reason)
    analysis = _analyse_text(task, tables, root, analyser)
    if analysis is not None:
        obstacle = obstacle or analysis.obstacle or _find_column_mismatch(root, analysis.schema)
        types = {f.name: f.type for f in analysis.schema}
    if root is None or obstacle is not None:
        known = None if analysis is None else scan_channel(table, declared_types or types)
        return DeclaredTable(_to_batch_task(task, obstacle or ""), (), known)
    if analysis is not None:
        root = (
            rename_columns(root, dict(zip(root.columns, types, strict=True))) if root.columns != tuple(types) else root
        )
    query = DeclaredQuery(table, root)
    known_types = declared_types or {c: types.get(c, "") for c in root.columns}
    source = scan_channel(table, known_types, query.key or (), append_only=is_append_only(root))
    compiled = add_variants(task, query, schema)
    typed = replace(compiled, variants=tuple(_add_types(v, query, sources) for v in compiled.variants))
    return DeclaredTable(typed, list_state_channels(task, query), source)


def _add_types(variant: Variant, query: DeclaredQuery, sources: Mapping[str, TypedRelation]) -> Variant:
    """The variant with the types of exactly the columns that it reads, because it depends on these."""
    columns: dict[str, set[str]] = {}
    for scan in list_scans(query.root):
        columns.setdefault(scan.channel, set()).update(scan.columns)
    types = {c: {n: sources[c].types.get(n, "") for n in sorted(names)} for c, names in sorted(columns.items())}
    assert isinstance(variant.code, Refresh)
    return replace(variant, code=replace(variant.code, types=types))


def _translate_operators(task: Task, tables: Mapping[str, TypedRelation]) -> tuple[Operator, Mapping[str, str]]:
    """The operators of a query over channels, and the types of their columns as far as they are known here."""
    translated = _translate_code(task.variant.code, tables)
    root = rewrite_query(translated.op)
    unread = {r.port for r in task.reads} - {scan.channel for scan in list_scans(root)}
    if unread:
        raise NotIncremental(f"it names {min(unread)} but does not depend on it")
    return root, translated.types


def _analyse_text(
    task: Task, tables: Mapping[str, TypedRelation], root: Operator | None, analyser: Analyser
) -> Analysis | None:
    """Spark's analysis of a query's text; None if it has no text or reads columns of unknown types."""
    text = _find_query_text(task)
    unknown = len(tables) < len(task.reads) or any("" in s.types.values() for s in tables.values())
    if text is None or unknown:
        return None
    schemas = {name: Schema(tuple(Field(c, t) for c, t in s.types.items())) for name, s in tables.items()}
    query = AnalysisRequest(text.query, schemas, root, text.tables, "" if root is None else describe_operator(root))
    return _call_analyser(task, query, analyser)


def _call_analyser(task: Task, query: AnalysisRequest, analyser: Analyser) -> Analysis | None:
    try:
        return analyser.analyse_query(query)
    except QueryRefused as error:
        raise WorkflowError([f"{task.location}: query {task.name!r}: {error}"]) from error


def _find_column_mismatch(root: Operator | None, schema: Schema) -> str | None:
    if root is None or len(root.columns) == len(schema.names):
        return None
    return "its columns could not be resolved here"


def _translate_code(code: Code, sources: Mapping[str, TypedRelation]) -> TypedRelation:
    """The operators of a query, or of a relation whose columns are only known at this point."""
    if not isinstance(code, Sql):
        return resolve_stage(_get_stage(code), sources)
    try:
        return translate_query(code.query, sources)
    except NotIncremental:
        raise
    except Exception as error:  # Spark may accept constructs that this translator does not support
        raise NotIncremental(f"it could not be translated: {type(error).__name__}") from error


def _to_batch_task(task: Task, reason: str) -> Task:
    """The task with a single variant, which runs the query's text unchanged."""
    code = task.variant.code
    text = code if isinstance(code, Sql) else Sql(stage_to_sql(_get_stage(code), reason))
    return replace(task, variants=(replace(task.variant, code=text),), batch_reason=reason)


def _get_stage(code: Code) -> Stage:
    assert isinstance(code, Refresh)
    stage: Stage = code.query
    return stage


def add_variants(task: Task, query: DeclaredQuery, schema: Schema | None) -> Task:
    """The task with one variant for each refresh mode of the query."""
    text = _find_query_text(task)
    full_incremental = _build_incremental(query, schema, query.channels)
    single_channel = (
        [_build_incremental(query, schema, (c,)) for c in query.channels] if len(query.channels) > 1 else []
    )
    recompute = [_build_recompute(query, schema, text)] if query.build_states() else []
    return replace(task, variants=(_build_batch(query, schema, text), *recompute, full_incremental, *single_channel))


def _find_query_text(task: Task) -> QueryText | None:
    """The SQL text that computes the full result; None for a relation with a user's group function."""
    code = task.variant.code
    text = code.query if isinstance(code, Sql) else find_stage_sql(_get_stage(code))
    return None if text is None else QueryText(text, {r.argument: r.port for r in task.reads})


def list_state_channels(task: Task, query: DeclaredQuery) -> tuple[Channel, ...]:
    return tuple(
        Channel(s.channel, ChannelRole.STATE, updates=Signed(), location=task.location)
        for s in query.build_states().values()
    )  # fmt: skip


def compile_workflow(
    name: str, channels: Sequence[Channel], bindings: Sequence[BoundFlow], knowledge: SchemaKnowledge = NO_KNOWLEDGE
) -> WorkflowSpec:
    """A workflow with its declared tables compiled in dependency order, and their state channels."""
    channels, bindings = add_state_channels(channels, bindings)
    known = {c.name: c for c in channels}
    names = {*known, *(w.port for b in bindings for t in b.tasks for w in t.writes)}
    bindings = [replace(b, tasks=tuple(_resolve_reads(t, names) for t in b.tasks)) for b in bindings]
    sources = {c.name: _build_source(c, c.schema) for c in channels if c.schema is not None}
    compiled: dict[str, DeclaredTable] = {}
    problems: list[str] = []
    ordered = sort_tasks(t for b in bindings for t in b.tasks)
    needed = _find_needed_channels(ordered)
    declared = _ChannelDeclarations(known, frozenset(t.writes[0].port for t in ordered if t.refresh is not None))
    for task in ordered:
        if task.refresh is None:
            try:
                sources |= _infer_outputs(task, needed, declared, sources, knowledge)
            except WorkflowError as error:
                problems += error.problems
            continue
        table = task.writes[0].port
        try:
            table_plan = compile_table(
                task, sources, known[table].schema if table in known else None, knowledge.analyser
            )
        except WorkflowError as error:
            problems += error.problems
            table_plan = compile_table(task, sources, None)
        compiled[table] = table_plan
        if table_plan.source is not None:
            sources[table] = table_plan.source
    if problems:
        raise WorkflowError(problems)
    tables = {t: d.task for t, d in compiled.items()}
    compiled_bindings = tuple(replace(b, tasks=tuple(_get_compiled_task(t, tables) for t in b.tasks)) for b in bindings)
    declared_channels = tuple(_use_signed_rows(c) if _is_incremental(c, compiled) else c for c in channels)
    states = (c for d in compiled.values() for c in d.channels)
    return WorkflowSpec(
        name, (*declared_channels, *_list_implied_channels(compiled_bindings, known), *states), compiled_bindings
    )


def _resolve_reads(task: Task, names: Collection[str]) -> Task:
    """A query's reads bound to the channels that its table names refer to, ignoring case.

    In a query that could not be parsed, a name that is no channel is not a table.
    """
    code = task.variant.code
    if not isinstance(code, Sql) or all(r.port in names for r in task.reads):
        return task
    by_lower = {name.lower(): name for name in sorted(names)}
    reads = [r if r.port in names else replace(r, port=by_lower.get(r.port.lower(), r.port)) for r in task.reads]
    if not find_table_names(code.query).is_certain:
        reads = [r for r in reads if r.port in names]
    return replace(task, variants=(replace(task.variant, reads=tuple(reads)),))


def _is_incremental(channel: Channel, compiled: Mapping[str, DeclaredTable]) -> bool:
    return channel.name in compiled and len(compiled[channel.name].task.variants) > 1


def _use_signed_rows(channel: Channel) -> Channel:
    """The channel with signed updates if only its schema was declared, like a table without a declared schema."""
    return replace(channel, updates=Signed()) if isinstance(channel.updates, Append) else channel


def _get_compiled_task(task: Task, tables: Mapping[str, Task]) -> Task:
    return task if task.refresh is None else tables[task.writes[0].port]


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
    """The channels whose columns declared tables depend on, directly or through programmed tasks."""
    needed: set[str] = set()
    for task in reversed(ordered):
        if task.refresh is not None or any(w.port in needed for w in task.writes):
            needed |= {r.port for r in task.reads}
    return needed


@dataclass(frozen=True, slots=True)
class _ChannelDeclarations:
    """The declarations of a workflow's channels."""

    declared: Mapping[str, Channel]
    tables: frozenset[str]  # written by declared queries

    def find_updates(self, name: str) -> Updates:
        """The kind of updates that readers of a channel receive."""
        known = self.declared.get(name)
        updates = Append() if known is None else known.updates
        return Signed() if name in self.tables and isinstance(updates, Append) else updates


def _infer_outputs(
    task: Task,
    needed: Collection[str],
    channels: _ChannelDeclarations,
    sources: Mapping[str, TypedRelation],
    knowledge: SchemaKnowledge,
) -> dict[str, TypedRelation]:
    """The columns that a programmed task writes, where they are needed and not declared.

    They come from Spark's analysis, else from the schema recorded for a block. Raises `WorkflowError` for a query that
    Spark does not accept.
    """
    unknown = [w for w in task.writes if w.port in needed and w.port not in sources and w.port not in task.state_ports]
    if not unknown and not isinstance(task.variant.code, Sql):
        return {}
    inferred = _infer_schemas(task, channels, sources, knowledge.analyser) or {}
    recorded = {name: k.schema for name, k in knowledge.observed_schemas.items() if k.writer == task.compute_identity()}
    schemas = {w.port: inferred.get(w.argument) or recorded.get(w.port) for w in unknown}
    return {
        port: _build_source(channels.declared.get(port) or Channel(port, ChannelRole.DERIVED), schema)
        for port, schema in schemas.items()
        if schema is not None
    }


def _infer_schemas(
    task: Task, channels: _ChannelDeclarations, sources: Mapping[str, TypedRelation], analyser: Analyser
) -> Mapping[str, Schema] | None:
    """Spark's analysis of the columns that a programmed task returns."""
    code = task.variant.code
    known = all(r.port in sources and "" not in sources[r.port].types.values() for r in task.reads)
    if not isinstance(code, Function | Sql) or not known:
        return None
    inputs = {r.argument: _compute_read_schema(r, channels, sources[r.port]) for r in task.reads}
    if isinstance(code, Function):
        return analyser.infer_outputs(task, inputs)
    analysis = _call_analyser(task, AnalysisRequest(code.query, inputs), analyser)
    if analysis is None:
        return None
    rows = Schema(tuple(f for f in analysis.schema if f.name not in RESERVED_COLUMNS))
    return {w.argument: rows for w in task.writes}


def _compute_read_schema(read: TaskInput, channels: _ChannelDeclarations, source: TypedRelation) -> Schema:
    """The columns that a task receives from a channel."""
    schema = Schema(tuple(Field(c, t) for c, t in source.types.items()))
    return channels.find_updates(read.port).build_delta_schema(schema) if read.mode is ReadMode.NEW else schema


def _build_source(channel: Channel, schema: Schema) -> TypedRelation:
    unique = channel.updates.key if isinstance(channel.updates, Upsert | Increment) else ()
    types = {f.name: f.type for f in schema}
    return scan_channel(channel.name, types, unique, append_only=isinstance(channel.updates, Append))


def _build_batch(query: DeclaredQuery, schema: Schema | None, text: QueryText | None) -> Variant:
    reads = tuple(TaskInput(name_input(c, ScanMode.NEW), c, ReadMode.ALL, advance=True) for c in query.channels)
    states = tuple(TaskOutput(s.channel, s.channel, BlockKind.BASE) for s in query.build_states().values())
    code = Refresh(query, query.table, RefreshMode.BATCH, describe_operator(query.root), schema, text)
    return Variant(RefreshMode.BATCH, reads, (*states, TaskOutput(query.table, query.table, BlockKind.BASE)), code)


def _build_recompute(query: DeclaredQuery, schema: Schema | None, text: QueryText | None) -> Variant:
    batch = _build_batch(query, schema, text)
    writes = tuple(replace(w, void=w.port != query.table) for w in batch.writes)
    code = Refresh(query, query.table, RefreshMode.RECOMPUTE, describe_operator(query.root), schema, text)
    return Variant(RefreshMode.RECOMPUTE, batch.reads, writes, code)


def _build_incremental(query: DeclaredQuery, schema: Schema | None, consumed: tuple[str, ...]) -> Variant:
    """The variant that consumes the changes of these channels and reads the others as last consumed."""
    modes = {c: _MODES if c in consumed else _MODES[-1:] for c in query.channels}
    reads = tuple(TaskInput(name_input(c, scan), c, mode) for c in query.channels for scan, mode in modes[c])
    name = VariantName(RefreshMode.INCREMENTAL, None if consumed == query.channels else consumed[0])
    states = query.build_states().values()
    state_reads = tuple(TaskInput(name_input(s.channel, ScanMode.OLD), s.channel, ReadMode.ALL) for s in states)
    writes = tuple(TaskOutput(s.channel, s.channel, BlockKind.DELTA, s.updates) for s in states)
    result = TaskOutput(query.table, query.table, BlockKind.DELTA, query.updates)
    code = Refresh(query, query.table, RefreshMode.INCREMENTAL, describe_operator(query.root), schema)
    return Variant(str(name), (*reads, *state_reads), (*writes, result), code)


_MODES = ((ScanMode.CHANGE, ReadMode.NEW), (ScanMode.NEW, ReadMode.ALL), (ScanMode.OLD, ReadMode.OLD))
