"""Flows: groups of tasks, stateful tasks, windows and waves, as users declare them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from tidemill.algebra.program import RefreshMode
from tidemill.algebra.relation import Relation
from tidemill.algebra.sql.tables import find_table_names
from tidemill.algebra.stages import ChannelStage, list_channels
from tidemill.api import parts, stateful
from tidemill.api.marks import STATE, Base, Delta, F, Key, Reading, Writing, locate_value_error
from tidemill.api.options import CommandOptions, DeclaredOptions, RunOptions, TableOptions, TaskOptions, read_options
from tidemill.api.waves import tag_query, tag_results
from tidemill.errors import WorkflowError
from tidemill.model.block import BlockKind
from tidemill.model.flow import FlowSpec as FlowModel
from tidemill.model.flow import NestedFlow
from tidemill.model.location import SourceLocation, find_caller
from tidemill.model.renamed import raise_missing_attribute, reject_renamed_keywords
from tidemill.model.schema import StateSchema
from tidemill.model.stateful import WindowTaskSpec
from tidemill.model.task import Command, Function, ReadMode, Refresh, Sql, Task, TaskInput, TaskOutput, Variant
from tidemill.model.window import Between, Window


class Flow:
    """A reusable group of tasks. Its ports are the names that its tasks read and write."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._location = find_caller()
        self._parts: list[Task | NestedFlow] = []

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return raise_missing_attribute(
                self, name, {"settled": "watermark", "synch": "barrier", "declared": "build_spec"}
            )

    @overload
    def task(self, function: F) -> F: ...

    @overload
    def task(
        self,
        *,
        name: str | None = None,
        output: str | None = None,
        writes: Mapping[str, Writing] | None = None,
        channels: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        waves: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> Callable[[F], F]: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        output: str | None = None,
        writes: Mapping[str, Writing] | None = None,
        channels: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        waves: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> Any:
        """Declare a PySpark function as a task.

        Each argument annotated `tm.All`, `tm.New` or `tm.Old` is a DataFrame of the channel of that name, or of the one
        that `channels` gives for it. The result annotation `tm.Base` or `tm.Delta` makes one output, named like the
        function or as `output` says. With `writes={"name": tm.Delta, …}` the function returns a dict of DataFrames.
        `parameters` are passed as keyword arguments.

        `waves="orders"`: the results for an event of that channel are part of the event's wave. If the function keeps
        the column `wave`, it is called once for all events, else for each event; docs/streams.md has details.

        Servers run it as its `schedule` says, and when its output would otherwise be staler than its `freshness`
        allows. A result is identified by the code of the function and of the project's code that it calls, by the
        parameters and by the inputs; declare others as `dependencies`. `tidemill.api.options` has all options.
        """

        def declare_task(fn: F) -> F:
            where = SourceLocation(fn.__code__.co_filename, fn.__code__.co_firstlineno)
            declared = read_options(TaskOptions, options, where)
            reads = parts.parse_reads(fn, dict(channels or {}), set(parameters or {}), where)
            outputs = parts.parse_writes(fn, output, writes, dict(channels or {}), where)
            events = next((r.argument for r in reads if r.port == waves), waves)
            code = Function(fn if events is None else partial(tag_results, fn, events))
            variants = (Variant("programmed", reads, outputs, code),)
            task = Task(name or fn.__name__, variants, dict(parameters or {}), **declared.task_fields)
            window_tasks = tuple(stateful.build_input_windows(task, parts.inspect_signature(fn), self._is_written))
            companions = [*window_tasks, *self._build_wave_end_tasks(task, waves)]
            self._add_task(stateful.redirect_windowed_reads(task, window_tasks), declared, companions)
            return fn

        return declare_task(function) if function is not None else declare_task

    @reject_renamed_keywords(together="refresh_group")
    def sql(
        self,
        name: str,
        query: str,
        *,
        refresh: str = "auto",
        modes: Mapping[str, Reading] | None = None,
        writes: Writing | None = None,
        waves: str | None = None,
        **options: Unpack[TableOptions],
    ) -> str:
        """Declare the table `name` by a Spark SQL query over other channels; it is refreshed in the cheapest mode.

        `refresh` is "auto", "batch", "incremental" (always incremental once there is a previous refresh), or
        "incremental_strict", which refuses a query that can only be run in batch.

        With `modes` or `writes` the query is a programmed task instead: it reads its inputs in the given modes (ALL by
        default), and writes a base or a delta.

        `waves="orders"`: the results for each new event of that channel are part of the event's wave, and have a
        lineage tag in the column `wave`. Then, too, the query is a programmed task: it reads new events, and appends to
        the table.

        `freshness=tm.Freshness("1 day", consistency="7 days")`, or `target_lag="1 day", consistency="7 days"`: new data
        is reflected within a day. Tables between the inputs and this one are refreshed as needed. Tables with the same
        `refresh_group` are one flow of that name: one run refreshes all of them when one is due, in one commit.
        `tidemill.api.options` has all options.
        """
        where = find_caller()
        declared = read_options(TableOptions, options, where)
        parts.check_refresh(name, refresh, where)
        read_modes = {table: parts.parse_mode(reading, where) for table, reading in (modes or {}).items()}
        with locate_value_error(f"{where}: query {name!r}"):
            tables = find_table_names(query).names  # some may be no tables, if the query cannot be parsed completely
            if waves is not None:
                query, read_modes = tag_query(query, waves), {waves: ReadMode.NEW, **read_modes}
                writes = Delta if writes is None else writes
        unknown = sorted(set(read_modes) - set(tables))
        if unknown:
            raise WorkflowError([f"{where}: query {name!r} does not read {unknown[0]!r}, which modes contains"])
        reads = tuple(TaskInput(t, t, read_modes.get(t, ReadMode.ALL)) for t in tables)
        is_declared = modes is None and writes is None
        outputs = (TaskOutput(name, name, parts.parse_kind(Base if writes is None else writes, where)),)
        variants = (Variant(RefreshMode.BATCH if is_declared else "programmed", reads, outputs, Sql(query)),)
        task = Task(name, variants, refresh=refresh if is_declared else None, **declared.task_fields)
        self._add_task(task, declared, self._build_wave_end_tasks(task, waves))
        return name

    def relation(self, channel: str) -> Relation:
        """Return the rows of a channel, to derive a table by methods instead of SQL."""
        return Relation(channel, ChannelStage(channel, find_caller()))

    @reject_renamed_keywords(together="refresh_group")
    def derive(self, name: str, relation: Relation, *, refresh: str = "auto", **options: Unpack[TableOptions]) -> str:
        """Declare the table `name` by a relation over other channels; it is refreshed like a query of `sql`."""
        where = find_caller()
        declared = read_options(TableOptions, options, where)
        parts.check_refresh(name, refresh, where)
        reads = tuple(TaskInput(c, c, ReadMode.ALL) for c in list_channels(relation.stage))
        code = Refresh(relation.stage, name, RefreshMode.BATCH, description="")
        variants = (Variant(RefreshMode.BATCH, reads, (TaskOutput(name, name, BlockKind.BASE),), code),)
        self._add_task(Task(name, variants, refresh=refresh, **declared.task_fields), declared)
        return name

    def sql_files(self, pattern: str) -> list[str]:
        """Declare a table for each matching `.sql` file, named like it; paths are relative to the calling file."""
        where = find_caller()
        files = sorted(Path(where.file).parent.glob(pattern))
        if not files:
            raise WorkflowError([f"{where}: no file matches {pattern!r} beside {where.file}"])
        return [self.sql(f.stem, f.read_text(encoding="utf-8")) for f in files]

    def command(
        self,
        name: str,
        argv: Sequence[str],
        *,
        reads: Mapping[str, Reading],
        writes: Mapping[str, Writing],
        env: Mapping[str, str] | None = None,
        **options: Unpack[CommandOptions],
    ) -> str:
        """Declare a program as a task; `{channel}` in an argument is the directory of that input or output.

        `limits=tm.Limits(memory="2 GB", cpu="10 minutes", processes=8)` ends it if it uses more.
        """
        where = find_caller()
        declared = read_options(CommandOptions, options, where)
        code = Command(tuple(argv), dict(env or {}), limits=declared.limits)
        inputs = tuple(TaskInput(c, c, parts.parse_mode(r, where)) for c, r in reads.items())
        outputs = tuple(TaskOutput(c, c, parts.parse_kind(w, where)) for c, w in writes.items())
        variants = (Variant("programmed", inputs, outputs, code),)
        self._add_task(Task(name, variants, **declared.task_fields), declared)
        return name

    def keyed(
        self,
        *,
        state: str,
        by: Key,
        writes: Mapping[str, str],
        partitions: int = 1,
        name: str | None = None,
        channels: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> Callable[[F], F]:
        """Declare a vectorised function over keyed state.

        The function is called as `fn(state, …)`: its first argument is an array of the rows of `state` for the events
        of the batch, its argument annotated `tm.New` the batch, a dict of arrays; those annotated `tm.All` are full
        tables, likewise. It returns a `tidemill.stream.KeyedResult`: the new rows of state, and the rows for each of
        `writes`, which gives their columns. State and outputs become visible together. docs/streams.md has details.
        """

        def declare_task(fn: F) -> F:
            where = SourceLocation(fn.__code__.co_filename, fn.__code__.co_firstlineno)
            reads = parts.parse_reads(fn, dict(channels or {}), {STATE, *(parameters or {})}, where)
            parts.check_keyed_signature(fn, reads, where)
            code = stateful.build_keyed_code(fn, state, by, writes, partitions, where)
            ports = {argument: (channels or {}).get(argument, argument) for argument in writes}
            task = stateful.build_stateful_task(name or fn.__name__, code, reads, ports)
            self._declare_task(replace(task, parameters=dict(parameters or {})), options, where)
            return fn

        return declare_task

    def stateful(
        self,
        name: str,
        make: Callable[..., Any],
        *,
        reads: Mapping[str, Reading],
        states: Mapping[str, StateSchema],
        writes: Mapping[str, str],
        parameters: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> str:
        """Declare a user-defined operator with several kinds of state: the result of `make(**parameters)`.

        It is a `tidemill.stream.StatefulOperator`: it is restored from blocks of each of `states`, runs on batches of
        new rows, and returns rows for each of `writes` and the changed rows of state.
        """
        where = find_caller()
        inputs = [TaskInput(c, c, parts.parse_mode(r, where)) for c, r in reads.items()]
        code = stateful.build_operator_code(name, make, states, writes, where)
        task = stateful.build_stateful_task(name, code, inputs, {w: w for w in writes})
        return self._declare_task(replace(task, parameters=dict(parameters or {})), options, where)

    def window(
        self,
        name: str,
        of: str,
        size: str | Between,
        step: str | None = None,
        *,
        by: Sequence[str] = (),
        timeout: float | None = None,
        delete_used: bool = False,
        at_least: int = 1,
        time: str | None = None,
        sums: Sequence[str] | None = None,
        **options: Unpack[RunOptions],
    ) -> str:
        """Declare windows over the events of a channel; they go to the channel `name`, as rows.

        Events that no further window contains go to `name_expired`, late ones to `name_late`. With `sums` the channel
        has one row for each window instead: the number of events, and the sums of those columns.
        """
        window = Window.from_text(
            size, step, by=by, timeout=timeout, delete_used=delete_used, at_least=at_least, time=time
        )
        code = WindowTaskSpec(window, None if sums is None else tuple(sums))
        return self._declare_task(stateful.build_window_task(name, of, code, self._is_written), options, find_caller())

    def waves(self, name: str, of: str, **options: Unpack[RunOptions]) -> str:
        """Declare the events of a channel, each as the start of a wave: its columns, and its tag in a column `wave`."""
        return self._declare_task(stateful.build_wave_start_task(name, of), options, find_caller())

    def barrier(self, name: str, branches: Sequence[str], **options: Unpack[RunOptions]) -> str:
        """Declare the waves that are complete on all of several channels with tags: one row per wave, its `wave`."""
        return self._declare_task(stateful.build_barrier_task(name, branches, self._is_written), options, find_caller())

    def use(self, flow: Flow, name: str | None = None, **ports: str) -> None:
        """Nest another flow, its ports renamed: `use(dedupe, articles="raw")` reads this flow's `raw`."""
        where = find_caller()
        inner = flow.build()
        parts.check_ports(inner, ports, where)
        self._parts.append(NestedFlow(name or flow.name, inner, dict(ports), where))

    def build(self) -> FlowModel:
        return FlowModel(self.name, tuple(self._parts), self._location)

    def _declare_task(self, task: Task, options: RunOptions, where: SourceLocation) -> str:
        declared = read_options(RunOptions, options, where)
        self._add_task(replace(task, **declared.task_fields), declared)
        return task.name

    def _add_task(self, task: Task, declared: DeclaredOptions, companions: Sequence[Task] = ()) -> None:
        """Add a task, with the tasks that are part of all its runs."""
        where = f"{task.location}: task {task.name!r} is part of flow {self.name!r}"
        if declared.triggers:
            raise WorkflowError([f"{where}; give its triggers where the flow is bound"])
        if declared.target:
            raise WorkflowError([f"{where}; set target_lag and consistency on the channel it writes, with table()"])
        if declared.priority != 1.0:
            raise WorkflowError([f"{where}; give its priority where the flow is bound"])
        if declared.refresh_group is not None:
            raise WorkflowError([f"{where}, which always runs as one; leave refresh_group= out"])
        self._parts.extend([*companions, task])

    def _is_written(self, channel: str) -> bool:
        """Tell whether an earlier declared task writes a channel."""
        return any(w.port == channel for part in self._parts if isinstance(part, Task) for w in part.writes)

    def _build_wave_end_tasks(self, task: Task, waves: str | None) -> list[Task]:
        """Build the tasks that pass on the events that ended in this one, if it propagates waves."""
        if waves is None:
            return []
        subject = f"{task.location}: task {task.name!r}"
        if not any(r.port == waves and r.mode is ReadMode.NEW for r in task.reads):
            raise WorkflowError([f"{subject} propagates the waves of {waves!r}; read it as tm.New"])
        if any(w.kind is not BlockKind.DELTA for w in task.writes):
            raise WorkflowError([f"{subject} propagates waves; make it write tm.Delta"])
        return stateful.build_wave_end_tasks(task, waves, self._is_written)
