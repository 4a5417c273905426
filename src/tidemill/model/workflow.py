"""Workflows: declared channels and bound flows, and everything that can be wrong with them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter

from tidemill.errors import WorkflowError
from tidemill.model.analysis import Knowledge
from tidemill.model.block import Kind
from tidemill.model.change import RESERVED, Append, Signed
from tidemill.model.channel import Channel, Role, valid_name
from tidemill.model.flow import Binding
from tidemill.model.location import Location
from tidemill.model.stateful import Stateful, Windowed
from tidemill.model.task import Command, Mode, Refresh, Sql, Task
from tidemill.model.trigger import After, Data, leaves, problems
from tidemill.model.wave_steps import Started


@dataclass(frozen=True, slots=True)
class Workflow:
    """What one or more workflow files declare. `checked` returns it only if nothing is wrong with it."""

    name: str
    channels: tuple[Channel, ...]
    bindings: tuple[Binding, ...]
    resolve: Callable[[Knowledge], Workflow] | None = field(default=None, compare=False)
    """The same declarations worked out again with more known of queries and channels."""

    def channel(self, name: str) -> Channel | None:
        return next((c for c in self.channels if c.name == name), None)

    def tasks(self) -> Iterator[Task]:
        return (t for b in self.bindings for t in b.tasks)

    def with_fixed_identities(self) -> Workflow:
        """The workflow whose tasks keep the identities that they have now, when their code was just loaded."""
        bindings = (replace(b, tasks=tuple(t.with_fixed_identity() for t in b.tasks)) for b in self.bindings)
        return replace(self, bindings=tuple(bindings))

    def problems(self) -> list[str]:
        """Every problem, each with the user's file and line."""
        return [f"{where}: {what}" for rule in RULES for where, what in rule(self)]

    def checked(self) -> Workflow:
        problems = self.problems()
        if problems:
            raise WorkflowError(problems)
        return self


Problem = tuple[Location, str]


def _names(wf: Workflow) -> Iterator[Problem]:
    things: list[tuple[str, str, Location]] = [("channel", c.name, c.location) for c in wf.channels]
    things += [("bound flow", b.name, b.location) for b in wf.bindings]
    first: dict[tuple[str, str], Location] = {}
    for what, name, where in things:
        if what == "bound flow" and not valid_name(name):
            yield (
                where,
                f"{name!r} is not a name: use letters, digits and underscores, not starting with a digit",
            )
        if (what, name) in first:
            yield where, f"{what} {name!r} is declared twice; the first time at {first[what, name]}"
        first.setdefault((what, name), where)


def _channels(wf: Workflow) -> Iterator[Problem]:
    for channel in wf.channels:
        yield from ((channel.location, problem) for problem in channel.problems())


def _unknown_channels(wf: Workflow) -> Iterator[Problem]:
    known = {c.name for c in wf.channels}
    for task in wf.tasks():
        for read in task.reads:
            if read.port not in known:
                yield (
                    task.location,
                    f"task {task.name!r} reads unknown channel {read.port!r}{_similar(read.port, known)}",
                )


def _similar(name: str, known: Iterable[str], what: str = "channel") -> str:
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; the {what}s are {', '.join(names)}" if names else f"; no {what} is declared"


def _signatures(wf: Workflow) -> Iterator[Problem]:
    for task in wf.tasks():
        if not task.writes:
            yield task.location, f"task {task.name!r} writes nothing; annotate its result, e.g. '-> tm.Delta'"
        for argument, count in Counter(w.port for w in task.writes).items():
            if count > 1:
                yield task.location, f"task {task.name!r} writes channel {argument!r} twice"
        new = {r.port for r in task.reads if r.mode is Mode.NEW}
        for read in task.reads:
            if read.mode is Mode.OLD and read.port not in new and task.refresh is None:
                yield (
                    task.location,
                    f"task {task.name!r} reads OLD of {read.port!r}, which is only defined beside a NEW of it",
                )
            if read.port in task.states and read.mode is not Mode.ALL:
                yield task.location, f"task {task.name!r} must read its own state {read.port!r} in mode ALL"
        if isinstance(task.variant.code, Command):
            yield from _placeholders(task, task.variant.code)


def _placeholders(task: Task, command: Command) -> Iterator[Problem]:
    names = {r.argument for r in task.reads} | {w.argument for w in task.writes}
    for argument in command.unknown(names):
        yield (
            task.location,
            f"task {task.name!r}: {argument} names no input or output of it",
        )


def _writers(wf: Workflow) -> Iterator[Problem]:
    writers: dict[str, list[tuple[Task, Kind]]] = defaultdict(list)
    for task in wf.tasks():
        for write in task.writes:
            writers[write.port].append((task, write.kind))
    for name, by in writers.items():
        channel = wf.channel(name)
        if channel is not None and channel.role is Role.INPUT:
            for task, _ in by:
                yield (
                    task.location,
                    f"task {task.name!r} writes {name!r}, an input channel that is fed from outside",
                )
        if len(by) > 1 and any(kind is Kind.BASE for _, kind in by):
            others = ", ".join(repr(t.name) for t, _ in by)
            yield (
                by[-1][0].location,
                f"tasks {others} all write {name!r}, and a base by one would undo the others",
            )
        if len(by) > 1 and any(name in t.states for t, _ in by):
            others = ", ".join(repr(t.name) for t, _ in by)
            yield by[-1][0].location, f"{name!r} is a task's own state, but {others} all write it"
    for channel in wf.channels:
        if channel.role is Role.DERIVED and channel.name not in writers:
            yield (
                channel.location,
                f"no task writes channel {channel.name!r}; declare it with input() if it is fed",
            )


def _cycles(wf: Workflow) -> Iterator[Problem]:
    tasks = list(wf.tasks())
    try:
        list(TopologicalSorter(_graph(tasks)).static_order())
    except CycleError as error:
        names = " <- ".join(tasks[i].name for i in error.args[1])
        where = tasks[error.args[1][0]].location
        yield where, f"cycle of tasks: {names}; only a task's own state channel may be read back"


def _graph(tasks: Sequence[Task]) -> dict[int, set[int]]:
    """For each task, by its index, the tasks whose outputs it reads; its own state aside."""
    writers: dict[str, set[int]] = defaultdict(set)
    for i, task in enumerate(tasks):
        for write in task.writes:
            writers[write.port].add(i)
    return {
        i: {w for r in task.reads if r.port not in task.states for w in writers[r.port]} for i, task in enumerate(tasks)
    }


def _query_columns(wf: Workflow) -> Iterator[Problem]:
    """A query's columns must be those of the channel it writes, where both are known; Spark checks the types."""
    for task in wf.tasks():
        code = task.variant.code
        channel = _result(wf, task)
        if not isinstance(code, Sql | Refresh) or channel is None or channel.schema is None:
            continue
        names = [n for n in code.column_names() if n not in RESERVED]
        wanted = channel.schema.names
        if "*" not in names and sorted(names) != sorted(wanted):
            yield (
                task.location,
                f"query {task.name!r} gives the columns {', '.join(names)}, but channel {channel.name!r} "
                f"(declared at {channel.location}) has {', '.join(wanted)}",
            )


def _result(wf: Workflow, task: Task) -> Channel | None:
    """The channel of a query's rows; what a declared table keeps for itself is written beside it."""
    code = task.variant.code
    writes = [w for w in task.writes if not isinstance(code, Refresh) or w.argument == code.table]
    return wf.channel(writes[0].port) if writes else None


def _strict(wf: Workflow) -> Iterator[Problem]:
    for task in wf.tasks():
        if task.refresh == "incremental_strict" and task.batch_because is not None:
            yield (
                task.location,
                f"query {task.name!r} must be incremental (refresh is 'incremental_strict') but can only be run in "
                f"batch: {task.batch_because}; change the query, or let refresh be 'auto'",
            )


def _signed(wf: Workflow) -> Iterator[Problem]:
    """What a refresh changes, readers are given as signed rows; only whole contents fit any merge kind."""
    for task in wf.tasks():
        channel = _result(wf, task) if isinstance(task.variant.code, Refresh) else None
        if channel is not None and not isinstance(channel.updates, Append | Signed):
            yield (
                channel.location,
                f"channel {channel.name!r} is declared with {channel.updates.name} updates, but query {task.name!r} "
                f"(declared at {task.location}) gives its changes as signed rows; leave key= and updates= out, "
                "or make the query a programmed task with writes=tm.Base",
            )


def _task_names(wf: Workflow) -> Iterator[Problem]:
    for binding in wf.bindings:
        counts = Counter(t.name for t in binding.tasks)
        for name, count in counts.items():
            if count > 1:
                yield binding.location, f"flow {binding.name!r} has {count} tasks named {name!r}"


def _triggers(wf: Workflow) -> Iterator[Problem]:
    """A trigger may wait for what another workflow declares; of a flow's own name it would wait for itself."""
    for binding in wf.bindings:
        for trigger in binding.triggers:
            yield from ((binding.location, f"flow {binding.name!r}: {problem}") for problem in problems(trigger))
            for _, leaf in leaves(trigger):
                if isinstance(leaf, Data) and leaf.channel in binding.written:
                    yield binding.location, f"flow {binding.name!r} would be run by its own data on {leaf.channel!r}"
                if isinstance(leaf, After) and leaf.flow == binding.name:
                    yield binding.location, f"flow {binding.name!r} would be run by its own runs"


def vain_triggers(wf: Workflow, channels: Iterable[str], flows: Iterable[str]) -> Iterator[str]:
    """Problems of triggers that wait for none of these channels and flows: those of all workflows."""
    known: dict[type[Data | After], tuple[str, set[str]]] = {Data: ("channel", {*channels}), After: ("flow", {*flows})}
    for binding in wf.bindings:
        for _, leaf in (leaf for trigger in binding.triggers for leaf in leaves(trigger)):
            if isinstance(leaf, Data | After):
                what, names = known[type(leaf)]
                wanted = leaf.channel if isinstance(leaf, Data) else leaf.flow
                if wanted not in names:
                    yield (
                        f"{binding.location}: flow {binding.name!r} waits for {what} {wanted!r}, which no workflow "
                        f"declares, and would never run{_similar(wanted, names, what)}; if another workflow is to "
                        "declare it, apply that one first"
                    )


def _stateful(wf: Workflow) -> Iterator[Problem]:
    for task in wf.tasks():
        code = task.variant.code
        if isinstance(code, Windowed | Started) and not code.schema.fields:
            what = "windows" if isinstance(code, Windowed) else "waves"
            yield (
                task.location,
                f"{what} {task.name!r} are over {task.reads[0].port!r}, whose columns are not known; "
                f"declare them with table({task.reads[0].port!r}, '…')",
            )
        elif isinstance(code, Stateful):
            yield from ((task.location, f"task {task.name!r}: {problem}") for problem in code.problems())


Rule = Callable[[Workflow], Iterator[Problem]]

RULES: tuple[Rule, ...] = (
    _names,
    _channels,
    _signatures,
    _unknown_channels,
    _writers,
    _query_columns,
    _strict,
    _signed,
    _cycles,
    _task_names,
    _stateful,
    _triggers,
)


def in_order(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks so that each stands after those whose outputs it reads; as given if they form a cycle."""
    given = list(tasks)
    try:
        return tuple(given[i] for i in TopologicalSorter(_graph(given)).static_order())
    except CycleError:
        return tuple(given)
