"""What users write. Decorators only build declarations; nothing here runs anything.

import tidemill as tm

wf = tm.Workflow("news")
articles = wf.input("articles", "url string, site string, body string")

@wf.task
def digests(articles: tm.New) -> tm.Delta:
    return articles.selectExpr("url", "sha2(body, 256) AS digest")
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidemill.algebra.declare import worked_out
from tidemill.algebra.program import Way
from tidemill.algebra.relation import Relation
from tidemill.algebra.stages import Rows, channels_of
from tidemill.carrying import carried, carried_query
from tidemill.errors import WorkflowError
from tidemill.model.block import Kind
from tidemill.model.change import Append, Updates, Upsert
from tidemill.model.channel import Channel, Role
from tidemill.model.duration import seconds
from tidemill.model.flow import Binding, Use
from tidemill.model.flow import Flow as FlowModel
from tidemill.model.kept import Kept
from tidemill.model.location import Location, caller
from tidemill.model.promise import EVERY, Form, Promise
from tidemill.model.promise import NONE as NO_PROMISE
from tidemill.model.promised import misplaced, with_promises
from tidemill.model.schema import Schema
from tidemill.model.stateful import Windowed
from tidemill.model.task import Command, Function, Mode, Read, Refresh, Retry, Sql, Task, Variant, Write
from tidemill.model.together import apart
from tidemill.model.together import together as one_flow
from tidemill.model.trigger import Trigger
from tidemill.model.window import Between, Window
from tidemill.model.workflow import Workflow as WorkflowModel
from tidemill.model.workflow import in_order
from tidemill.settling import EDGE, settling
from tidemill.streams import (
    ended_tasks,
    keyed_code,
    on_windows,
    operated_code,
    started_task,
    stateful_task,
    synched_task,
    window_task,
    windows_of,
)
from tidemill.when import interval

REFRESH = ("auto", "batch", "incremental", "incremental_strict")

STATE = "state"
"""The first argument of a keyed task."""

F = TypeVar("F", bound=Callable[..., Any])
Key = str | Sequence[str]
Duration = str | float
Lag = Duration | Mapping[str, Duration]


if TYPE_CHECKING:
    # What a task is given and what it returns are DataFrames, whichever kind of session made them.
    All: TypeAlias = Any
    New: TypeAlias = Any
    Old: TypeAlias = Any
    Base: TypeAlias = Any
    Delta: TypeAlias = Any
else:

    class All:
        """Annotation of a task's argument: the whole content of the channel."""

        mode = Mode.ALL

    class New:
        """Annotation of a task's argument: what changed since the task's last successful run."""

        mode = Mode.NEW

    class Old:
        """Annotation of a task's argument: the whole content as of the task's last successful run."""

        mode = Mode.OLD

    class Base:
        """Annotation of a task's result: it replaces the whole content of the channel."""

        kind = Kind.BASE

    class Delta:
        """Annotation of a task's result: it changes the content of the channel, as its updates say."""

        kind = Kind.DELTA


Reading = Any
"""One of `All`, `New` and `Old`."""

Writing = Any
"""One of `Base` and `Delta`."""


class Flow:
    """A reusable fragment of tasks. Its ports are the names that its tasks read and write."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._location = caller()
        self._parts: list[Task | Use] = []

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
        version: str | None = None,
        environment: Sequence[str] = (),
        deterministic: bool | None = None,
        attempts: int = 1,
        backoff: Duration = 1.0,
        time_limit: Duration | None = None,
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        target_lag: Lag | None = None,
        consistency: Duration | None = None,
        priority: float = 1.0,
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
        version: str | None = None,
        environment: Sequence[str] = (),
        deterministic: bool | None = None,
        attempts: int = 1,
        backoff: Duration = 1.0,
        time_limit: Duration | None = None,
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        target_lag: Lag | None = None,
        consistency: Duration | None = None,
        priority: float = 1.0,
    ) -> Any:
        """Declare a PySpark function as a task.

        Each argument annotated `tm.All`, `tm.New` or `tm.Old` is a DataFrame of the channel of that name,
        or of the one that `channels` gives for it. The result annotation `tm.Base` or `tm.Delta` makes one
        output, named like the function or as `output` says. With `writes={"name": tm.Delta, …}` the
        function returns a dict of DataFrames. `parameters` are passed as keyword arguments.

        `waves="orders"`: what it makes of an event of that channel is part of the event's wave. It keeps the column
        `wave`, as the event has it; docs/streams.md says what becomes of it.

        Servers run it when a trigger fires: `every="7 days"`, or any of `triggers`; and when what it writes would
        else be staler than `target_lag` allows. See `sql` for that and for `consistency`.

        A result is known by the code of the function and of what it calls in the project, by the parameters and by
        what it read. Name what else it depends on: environment variables in `environment`, anything in `version`,
        a string that you change when it does. With `deterministic=False` no result is taken for another.
        """

        def declare(fn: F) -> F:
            where = Location(fn.__code__.co_filename, fn.__code__.co_firstlineno)
            reads = _reads_of(fn, dict(channels or {}), set(parameters or {}), where)
            outputs = _writes_of(fn, output, writes, dict(channels or {}), where)
            code = Function(fn if waves is None else partial(carried, fn))
            variants = (Variant("programmed", reads, outputs, code),)
            limits = _limits(attempts, backoff, time_limit, where)
            task = Task(name or fn.__name__, variants, dict(parameters or {}), *limits, where)
            task = replace(task, version=version, environment=tuple(environment), deterministic=deterministic)
            promise = _promise(target_lag, consistency, (), where)
            formed = tuple(windows_of(task, _annotations(fn), self._made))
            beside = [*formed, *self._ended(task, waves)]
            self._place(on_windows(task, formed), _when(every, triggers, where), promise, priority, beside)
            return fn

        return declare(function) if function is not None else declare

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
        attempts: int = 1,
        backoff: Duration = 1.0,
        time_limit: Duration | None = None,
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        priority: float = 1.0,
    ) -> Callable[[F], F]:
        """Declare a vectorised function over state that is looked up by key.

        The function is called as `fn(state, …)`: its first argument is an array of the rows of `state` to which the
        events of the batch lead, its argument annotated `tm.New` the batch, a dict of arrays; those annotated `tm.All`
        are whole tables, likewise. It returns a `tidemill.stream.Step`: the rows as they are now, and what goes to each
        of `writes`, whose columns are given there. State and outputs become visible together. docs/streams.md has more.
        """

        def declare(fn: F) -> F:
            where = Location(fn.__code__.co_filename, fn.__code__.co_firstlineno)
            reads = _reads_of(fn, dict(channels or {}), {STATE, *(parameters or {})}, where)
            _check_batch(fn, reads, where)
            code = keyed_code(fn, state, by, writes, partitions, where)
            ports = {argument: (channels or {}).get(argument, argument) for argument in writes}
            retry, limit = _limits(attempts, backoff, time_limit, where)
            limits = {"retry": retry, "time_limit": limit, "parameters": dict(parameters or {})}
            task = stateful_task(name or fn.__name__, code, reads, ports, where, **limits)
            self._place(task, _when(every, triggers, where), NO_PROMISE, priority)
            return fn

        return declare

    def stateful(
        self,
        name: str,
        make: Callable[..., Any],
        *,
        reads: Mapping[str, Reading],
        states: Mapping[str, Kept],
        writes: Mapping[str, str],
        parameters: Mapping[str, Any] | None = None,
        attempts: int = 1,
        backoff: Duration = 1.0,
        time_limit: Duration | None = None,
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        priority: float = 1.0,
    ) -> str:
        """Declare an operator of your own with several kinds of state: what `make(**parameters)` returns.

        It is a `tidemill.stream.Operator`: it is restored from blocks of each of `states`, given batches of what is
        new, and returns rows for each of `writes` and the rows of state that changed.
        """
        where = caller()
        inputs = [Read(c, c, _mode(r, where)) for c, r in reads.items()]
        code = operated_code(name, make, states, writes, where)
        retry, limit = _limits(attempts, backoff, time_limit, where)
        limits = {"retry": retry, "time_limit": limit, "parameters": dict(parameters or {})}
        task = stateful_task(name, code, inputs, {w: w for w in writes}, where, **limits)
        self._place(task, _when(every, triggers, where), NO_PROMISE, priority)
        return name

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
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        priority: float = 1.0,
    ) -> str:
        """Declare windows over the events of a channel; they go to the channel `name`, as rows.

        Events that no window will have any more go to `name_expired`, those that came too late to `name_late`. With
        `sums` the channel has one row for each window instead: how many events, and what those columns add up to.
        """
        where = caller()
        window = Window.of(size, step, by=by, timeout=timeout, delete_used=delete_used, at_least=at_least, time=time)
        code = Windowed(window, None if sums is None else tuple(sums))
        self._place(window_task(name, of, code, self._made, where), _when(every, triggers, where), NO_PROMISE, priority)
        return name

    def sql(
        self,
        name: str,
        query: str,
        *,
        refresh: str = "auto",
        modes: Mapping[str, Reading] | None = None,
        writes: Writing | None = None,
        waves: str | None = None,
        attempts: int = 1,
        backoff: Duration = 1.0,
        time_limit: Duration | None = None,
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        target_lag: Lag | None = None,
        consistency: Duration | None = None,
        priority: float = 1.0,
        together: str | None = None,
    ) -> str:
        """Declare the table `name` by a Spark SQL query over other channels; it is kept fresh the cheapest way.

        `refresh` is "auto", "batch", "incremental" (always that way once there is something to go on from), or
        "incremental_strict", which refuses a query that can only be run in batch.

        With `modes` or `writes` the query is a programmed task instead: it runs as it stands, on what the modes
        say (ALL unless given), and writes a base or a delta.

        `waves="orders"`: what it makes of each new event of that channel is part of the event's wave, and has a tag in
        the column `wave`. Then, too, the query is a programmed task: it reads what is new there, and adds to the table.

        `target_lag="1 day"`: what arrives is reflected within a day; `{"pages": "0s", "clicks": "1 day"}`: by input.
        `consistency="7 days"`: what it reflects of its inputs is at most seven days apart; "strict": it was all there
        at one moment. Tables between the inputs and this one are refreshed when that needs them.

        `priority`: how much its staleness counts when more is due than can run at once; 1 unless given. Tables that say
        the same `together` are one flow of that name: one run refreshes all of them whenever one is due, in one commit.
        """
        where = caller()
        _check_refresh(name, refresh, where)
        chosen = {table: _mode(reading, where) for table, reading in (modes or {}).items()}
        tables = _tables_of(name, query, where)
        if waves is not None:
            query, chosen = _carried(name, query, waves, where), {waves: Mode.NEW, **chosen}
            writes = Delta if writes is None else writes
        unknown = sorted(set(chosen) - set(tables))
        if unknown:
            raise WorkflowError([f"{where}: query {name!r} does not read {unknown[0]!r}, but modes names it"])
        reads = tuple(Read(t, t, chosen.get(t, Mode.ALL)) for t in tables)
        declared = modes is None and writes is None
        outputs = (Write(name, name, _kind(Base if writes is None else writes, where)),)
        variants = (Variant(Way.BATCH if declared else "programmed", reads, outputs, Sql(query)),)
        limits = _limits(attempts, backoff, time_limit, where)
        task = Task(name, variants, {}, *limits, where, refresh if declared else None)
        promise = _promise(target_lag, consistency, (), where)
        self._place(task, _when(every, triggers, where), promise, priority, self._ended(task, waves), together)
        return name

    def waves(
        self,
        name: str,
        of: str,
        *,
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        priority: float = 1.0,
    ) -> str:
        """Declare the events of a channel, each as the start of a wave: its columns, and its tag in a column `wave`."""
        where = caller()
        self._place(started_task(name, of, where), _when(every, triggers, where), NO_PROMISE, priority)
        return name

    def synch(
        self,
        name: str,
        branches: Sequence[str],
        *,
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        priority: float = 1.0,
    ) -> str:
        """Declare the waves that are complete on each of several channels with tags: a row for each, its `wave`."""
        where = caller()
        task = synched_task(name, branches, self._made, where)
        self._place(task, _when(every, triggers, where), NO_PROMISE, priority)
        return name

    def relation(self, channel: str) -> Relation:
        """The rows of a channel, to derive a table from by methods instead of SQL."""
        return Relation(channel, Rows(channel, caller()))

    def derive(
        self,
        name: str,
        relation: Relation,
        *,
        refresh: str = "auto",
        attempts: int = 1,
        backoff: Duration = 1.0,
        time_limit: Duration | None = None,
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        target_lag: Lag | None = None,
        consistency: Duration | None = None,
        priority: float = 1.0,
        together: str | None = None,
    ) -> str:
        """Declare the table `name` by a relation over other channels; it is kept fresh as a query of `sql` is."""
        where = caller()
        _check_refresh(name, refresh, where)
        reads = tuple(Read(c, c, Mode.ALL) for c in channels_of(relation.stage))
        code = Refresh(relation.stage, name, Way.BATCH, description="")
        variants = (Variant(Way.BATCH, reads, (Write(name, name, Kind.BASE),), code),)
        task = Task(name, variants, {}, *_limits(attempts, backoff, time_limit, where), where, refresh)
        promise = _promise(target_lag, consistency, (), where)
        self._place(task, _when(every, triggers, where), promise, priority, together=together)
        return name

    def sql_files(self, pattern: str) -> list[str]:
        """Declare a table for each `.sql` file that matches, named like the file; paths are relative to this file."""
        where = caller()
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
        version: str | None = None,
        environment: Sequence[str] = (),
        deterministic: bool | None = None,
        attempts: int = 1,
        backoff: Duration = 1.0,
        time_limit: Duration | None = None,
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        target_lag: Lag | None = None,
        consistency: Duration | None = None,
        priority: float = 1.0,
    ) -> str:
        """Declare a program as a task; `{channel}` in an argument is the directory of that input or output."""
        where = caller()
        code = Command(tuple(argv), dict(env or {}))
        inputs = tuple(Read(c, c, _mode(r, where)) for c, r in reads.items())
        outputs = tuple(Write(c, c, _kind(w, where)) for c, w in writes.items())
        variants = (Variant("programmed", inputs, outputs, code),)
        task = Task(name, variants, {}, *_limits(attempts, backoff, time_limit, where), where)
        task = replace(task, version=version, environment=tuple(environment), deterministic=deterministic)
        promise = _promise(target_lag, consistency, (), where)
        self._place(task, _when(every, triggers, where), promise, priority)
        return name

    def use(self, flow: Flow, name: str | None = None, **ports: str) -> None:
        """Nest another flow, its ports renamed: `use(dedupe, articles="raw")` reads this flow's `raw`."""
        where = caller()
        inner = flow.build()
        _check_ports(inner, ports, where)
        self._parts.append(Use(name or flow.name, inner, dict(ports), where))

    def build(self) -> FlowModel:
        return FlowModel(self.name, tuple(self._parts), self._location)

    def _place(
        self,
        task: Task,
        triggers: tuple[Trigger, ...],
        promise: Promise,
        priority: float,
        beside: Sequence[Task] = (),
        together: str | None = None,
    ) -> None:
        """Take a task in, and with it those that are part of all its runs."""
        where = f"{task.location}: task {task.name!r} is part of flow {self.name!r}"
        if triggers:
            raise WorkflowError([f"{where}; give its triggers where the flow is bound"])
        if promise:
            raise WorkflowError([f"{where}; promise target_lag and consistency of the channel it writes, with table()"])
        if priority != 1.0:
            raise WorkflowError([f"{where}; give its priority where the flow is bound"])
        if together is not None:
            raise WorkflowError([f"{where}, all of which runs together; leave together= out"])
        self._parts.extend([*beside, task])

    def _made(self, channel: str) -> bool:
        """Is a channel written by a task that was declared before?"""
        return any(w.port == channel for part in self._parts if isinstance(part, Task) for w in part.writes)

    def _ended(self, task: Task, waves: str | None) -> list[Task]:
        """The tasks that pass on which events ended in this one, if it carries waves."""
        if waves is None:
            return []
        who = f"{task.location}: task {task.name!r}"
        if not any(r.port == waves and r.mode is Mode.NEW for r in task.reads):
            raise WorkflowError([f"{who} carries the waves of {waves!r}; read that as tm.New"])
        if any(w.kind is not Kind.DELTA for w in task.writes):
            raise WorkflowError([f"{who} carries waves; let it write tm.Delta"])
        return ended_tasks(task, waves, self._made)


class Workflow(Flow):
    """Channels and bound flows. A task declared on it directly is a flow of its own, bound by name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._channels: dict[str, Channel] = {}
        self._again: list[Channel] = []
        self._bindings: list[Binding] = []
        self._together: dict[str, list[Binding]] = {}
        self._promises: dict[str, tuple[Promise, Location]] = {}

    def input(self, name: str, schema: str, *, key: Key | None = None, updates: Updates | None = None) -> str:
        """Declare a channel that is fed from outside: as upserts if it has a key, else as appends."""
        return self._declare(name, Role.INPUT, schema, key, updates)

    def table(
        self,
        name: str,
        schema: str | None = None,
        *,
        key: Key | None = None,
        updates: Updates | None = None,
        target_lag: Lag | None = None,
        consistency: Duration | None = None,
        accepts: Sequence[str] = (),
    ) -> str:
        """Declare a channel that tasks write. Undeclared ones are append channels with the schema first written.

        For `target_lag` and `consistency` see `sql`. `accepts` says in which forms those outside take what is new:
        "base" (the whole content), "delta", or "monotone" (a delta that takes nothing back); any, unless said.
        """
        where = caller()
        self._promise(name, _promise(target_lag, consistency, accepts, where), where)
        return self._declare(name, Role.DERIVED, schema, key, updates)

    def settled(
        self,
        name: str,
        channel: str,
        *,
        at: str,
        disorder: Duration = 0.0,
        punctuation: str | None = None,
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        target_lag: Lag | None = None,
        priority: float = 1.0,
    ) -> str:
        """Declare the events of an append channel up to its trailing edge, in column `at` of event time.

        `disorder` says how far events may be out of order: the edge is so long before the newest. Or `punctuation`, a
        condition: an event that fulfils it says that nothing older will come. Younger events are held until the edge
        has passed them. What comes later than that is kept on the channel `name.late`.
        """
        where = caller()
        source = self._channels.get(channel)
        if source is None or source.schema is None or not isinstance(source.updates, Append):
            raise WorkflowError([f"{where}: {channel!r} must be an append channel with a schema, declared before"])
        if at not in source.schema:
            raise WorkflowError([f"{where}: channel {channel!r} has no column {at!r} of event time"])
        schema, held, late = str(source.schema), f"{name}.held", f"{name}.late"
        self._declare(name, Role.DERIVED, schema, None, None)
        self._declare(late, Role.DERIVED, schema, None, None)
        self._declare(held, Role.DERIVED, f"{schema}, {EDGE} timestamp", None, None)
        reads = (Read("rows", channel, Mode.NEW), Read("held", held, Mode.ALL))
        outputs = (("settled", name, Kind.DELTA), ("late", late, Kind.DELTA), ("held", held, Kind.BASE))
        writes = tuple(Write(*output) for output in outputs)
        code = Function(settling(at, seconds(disorder), punctuation))
        task = Task(name, (Variant("programmed", reads, writes, code),), {}, location=where)
        self._promise(name, _promise(target_lag, None, (), where), where)
        self._bind(name, [task], where, _when(every, triggers, where), priority)
        return name

    def bind(
        self,
        flow: Flow,
        name: str | None = None,
        *,
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        priority: float = 1.0,
        **ports: str,
    ) -> str:
        """Attach a flow's ports to channels, which makes it runnable; ports not named keep their own names."""
        where = caller()
        model = flow.build()
        _check_ports(model, ports, where)
        tasks = [t.rebound(t.name, ports) for t in model.tasks()]
        self._bind(name or flow.name, tasks, where, _when(every, triggers, where), priority)
        return name or flow.name

    def declared(self) -> WorkflowModel:
        """The declarations as one checked value; raises `WorkflowError` with every problem found."""
        channels = (*self._channels.values(), *self._again)
        groups = (one_flow(name, parts) for name, parts in self._together.items())
        workflow = worked_out(self.name, channels, (*self._bindings, *groups)).checked()
        problems = [*misplaced(workflow, self._promises), *apart(self._together)]
        if problems:
            raise WorkflowError(problems)
        return with_promises(workflow, self._promises)

    def _place(
        self,
        task: Task,
        triggers: tuple[Trigger, ...],
        promise: Promise,
        priority: float,
        beside: Sequence[Task] = (),
        together: str | None = None,
    ) -> None:
        if promise and len(task.writes) > 1:
            where = f"{task.location}: task {task.name!r} writes several channels"
            raise WorkflowError([f"{where}; promise target_lag and consistency of each with table()"])
        self._promise(task.writes[0].port if task.writes else task.name, promise, task.location)
        self._bind(task.name, [*beside, task], task.location, triggers, priority)
        if together is not None:
            self._together.setdefault(together, []).append(self._bindings.pop())

    def _made(self, channel: str) -> bool:
        bindings = [*self._bindings, *(b for word in self._together.values() for b in word)]
        return any(channel in binding.written for binding in bindings)

    def _promise(self, channel: str, promise: Promise, where: Location) -> None:
        if not promise:
            return
        if channel in self._promises:
            first = self._promises[channel][1]
            raise WorkflowError([f"{where}: of {channel!r} something is promised twice; the first time at {first}"])
        self._promises[channel] = (promise, where)

    def _bind(
        self, name: str, tasks: Sequence[Task], where: Location, triggers: tuple[Trigger, ...], priority: float
    ) -> None:
        if not 0 < priority < float("inf"):
            raise WorkflowError(
                [f"{where}: a priority is more than 0, and larger for what matters more, not {priority}"]
            )
        self._bindings.append(Binding(name, in_order(tasks), where, triggers, float(priority)))

    def _declare(self, name: str, role: Role, schema: str | None, key: Key | None, updates: Updates | None) -> str:
        where = caller()
        channel = Channel(name, role, _schema(name, schema, where), _updates(name, key, updates, where), where)
        if name in self._channels:
            self._again.append(channel)
        else:
            self._channels[name] = channel
        return name


def _schema(channel: str, ddl: str | None, where: Location) -> Schema | None:
    try:
        return None if ddl is None else Schema.parse(ddl)
    except ValueError as error:
        raise WorkflowError([f"{where}: channel {channel!r}: {error}"]) from error


def _updates(channel: str, key: Key | None, updates: Updates | None, where: Location) -> Updates:
    if key is not None and updates is not None:
        raise WorkflowError([f"{where}: channel {channel!r}: give key= (upserts) or updates=, not both"])
    if updates is not None:
        return updates
    return Append() if key is None else Upsert((key,) if isinstance(key, str) else tuple(key))


def _check_refresh(name: str, refresh: str, where: Location) -> None:
    if refresh not in REFRESH:
        raise WorkflowError([f"{where}: table {name!r}: refresh is one of {', '.join(REFRESH)}, not {refresh!r}"])


def _when(every: Duration | None, triggers: Sequence[Trigger], where: Location) -> tuple[Trigger, ...]:
    return ((interval(every, where),) if every is not None else ()) + tuple(triggers)


def _promise(lag: Lag | None, consistency: Duration | None, accepts: Sequence[str], where: Location) -> Promise:
    given = lag if isinstance(lag, Mapping) else {} if lag is None else {EVERY: lag}
    unknown = [form for form in accepts if form not in list(Form)]
    if unknown:
        raise WorkflowError([f"{where}: accepts names {', '.join(Form)}, not {unknown[0]!r}"])
    try:
        lags = {channel: seconds(duration) for channel, duration in given.items()}
        apart = None if consistency is None else 0.0 if consistency == "strict" else seconds(consistency)
    except ValueError as error:
        raise WorkflowError([f"{where}: {error}"]) from error
    if min((*lags.values(), apart or 0.0), default=0.0) < 0:
        raise WorkflowError([f"{where}: neither target_lag nor consistency can be less than nothing"])
    return Promise(lags, apart, tuple(Form(form) for form in accepts))


def _limits(
    attempts: int, backoff: Duration, time_limit: Duration | None, where: Location
) -> tuple[Retry, float | None]:
    if attempts < 1:
        raise WorkflowError([f"{where}: attempts must be at least 1, not {attempts}"])
    try:
        return Retry(attempts, seconds(backoff)), None if time_limit is None else seconds(time_limit)
    except ValueError as error:
        raise WorkflowError([f"{where}: {error}"]) from error


def _reads_of(fn: Callable[..., Any], channels: dict[str, str], given: set[str], where: Location) -> tuple[Read, ...]:
    reads = []
    for argument in _signature(fn).parameters.values():
        mode = getattr(argument.annotation, "mode", None)
        if isinstance(mode, Mode):
            reads.append(Read(argument.name, channels.get(argument.name, argument.name), mode))
        elif argument.name not in given and argument.default is inspect.Parameter.empty:
            raise WorkflowError(
                [f"{where}: annotate argument {argument.name!r} of {fn.__name__!r}: tm.All, tm.New or tm.Old"]
            )
    stray = sorted(set(channels) - {a.name for a in _signature(fn).parameters.values()} - {fn.__name__})
    if stray:
        raise WorkflowError([f"{where}: {fn.__name__!r} has no argument {stray[0]!r}, but channels names it"])
    return tuple(reads)


def _writes_of(
    fn: Callable[..., Any],
    output: str | None,
    writes: Mapping[str, Writing] | None,
    channels: dict[str, str],
    where: Location,
) -> tuple[Write, ...]:
    if writes is not None:
        return tuple(Write(n, channels.get(n, n), _kind(w, where)) for n, w in writes.items())
    kind = getattr(_signature(fn).return_annotation, "kind", None)
    if not isinstance(kind, Kind):
        raise WorkflowError([f"{where}: annotate the result of {fn.__name__!r}: '-> tm.Delta' or '-> tm.Base'"])
    name = output or fn.__name__
    return (Write(name, name, kind),)


def _check_batch(fn: Callable[..., Any], reads: Sequence[Read], where: Location) -> None:
    first = next(iter(_signature(fn).parameters), None)
    new = [r for r in reads if r.mode is Mode.NEW]
    if first != STATE or len(new) != 1 or any(r.mode is Mode.OLD for r in reads):
        raise WorkflowError(
            [
                f"{where}: keyed task {fn.__name__!r} is called as fn(state, batch, …): expected a first argument "
                f"'state', one that is tm.New, and others that are tm.All: def {fn.__name__}(state, events: tm.New)"
            ]
        )


def _annotations(fn: Callable[..., Any]) -> dict[str, Any]:
    return {name: argument.annotation for name, argument in _signature(fn).parameters.items()}


def _mode(reading: Reading, where: Location) -> Mode:
    mode = getattr(reading, "mode", None)
    if isinstance(mode, Mode):
        return mode
    raise WorkflowError([f"{where}: expected tm.All, tm.New or tm.Old, found {reading!r}"])


def _kind(writing: Writing, where: Location) -> Kind:
    kind = getattr(writing, "kind", None)
    if isinstance(kind, Kind):
        return kind
    raise WorkflowError([f"{where}: expected tm.Base or tm.Delta, found {writing!r}"])


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(fn, eval_str=True)


def _carried(name: str, query: str, waves: str, where: Location) -> str:
    try:
        return carried_query(query, waves)
    except ValueError as error:
        raise WorkflowError([f"{where}: query {name!r}: {error}"]) from error


def _tables_of(name: str, query: str, where: Location) -> tuple[str, ...]:
    try:
        tree = sqlglot.parse_one(query, dialect="spark")
    except SqlglotError as error:
        raise WorkflowError([f"{where}: query {name!r} is not Spark SQL: {error}"]) from error
    if not isinstance(tree, exp.Query):
        raise WorkflowError([f"{where}: query {name!r} must be a SELECT, not {tree.key.upper()}"])
    ctes = {c.alias for c in tree.find_all(exp.CTE)}
    return tuple(dict.fromkeys(t.name for t in tree.find_all(exp.Table) if t.name not in ctes))


def _check_ports(flow: FlowModel, ports: Mapping[str, str], where: Location) -> None:
    stray = sorted(set(ports) - flow.ports)
    if stray:
        has = ", ".join(sorted(flow.ports)) or "none"
        raise WorkflowError([f"{where}: flow {flow.name!r} has no port {stray[0]!r}; its ports are {has}"])
