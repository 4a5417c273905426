"""Workflows: declared channels and bound flows, and the validation rules for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from math import fsum

from tidemill.errors import WorkflowError
from tidemill.model.analysis import SchemaKnowledge
from tidemill.model.block import BlockKind
from tidemill.model.change import RESERVED_COLUMNS, Append, Signed
from tidemill.model.channel import Channel, ChannelRole, is_valid_name
from tidemill.model.flow import BoundFlow
from tidemill.model.location import SourceLocation
from tidemill.model.stateful import Stateful, WindowTaskSpec
from tidemill.model.task import Command, ReadMode, Refresh, Sql, Task
from tidemill.model.trigger import DataTrigger, RunTrigger, find_problems, list_leaves
from tidemill.model.wave_steps import WaveStartSpec


@dataclass(frozen=True, slots=True)
class WorkflowSpec:
    """The declarations of one or more workflow files. `validate_spec` returns it only if it has no problems."""

    name: str
    channels: tuple[Channel, ...]
    bindings: tuple[BoundFlow, ...]
    resolve: Callable[[SchemaKnowledge], WorkflowSpec] | None = field(default=None, compare=False)
    """Resolves the same declarations again with more knowledge of queries and channels."""

    def find_channel(self, name: str) -> Channel | None:
        return next((c for c in self.channels if c.name == name), None)

    def list_tasks(self) -> Iterator[Task]:
        return (t for b in self.bindings for t in b.tasks)

    def fix_identities(self) -> WorkflowSpec:
        """The workflow with the current identities of its tasks fixed, right after their code was loaded."""
        bindings = (replace(b, tasks=tuple(t.fix_identity() for t in b.tasks)) for b in self.bindings)
        return replace(self, bindings=tuple(bindings))

    def find_problems(self) -> list[str]:
        """Every problem, each with the user's file and line."""
        return [f"{location}: {problem}" for rule in VALIDATION_RULES for location, problem in rule(self)]

    def validate_spec(self) -> WorkflowSpec:
        problems = self.find_problems()
        if problems:
            raise WorkflowError(problems)
        return self


Problem = tuple[SourceLocation, str]
Rule = Callable[[WorkflowSpec], Iterator[Problem]]


def _check_tasks(rule: Callable[[WorkflowSpec, Task], Iterator[str]]) -> Rule:
    """A decorator: the rule is applied to each task, and its problems are located there."""
    return lambda wf: ((task.location, problem) for task in wf.list_tasks() for problem in rule(wf, task))


def _find_bad_names(wf: WorkflowSpec) -> Iterator[Problem]:
    names: list[tuple[str, str, SourceLocation]] = [("channel", c.name, c.location) for c in wf.channels]
    names += [("bound flow", b.name, b.location) for b in wf.bindings]
    first_locations: dict[tuple[str, str], SourceLocation] = {}
    for noun, name, location in names:
        if noun == "bound flow" and not is_valid_name(name):
            problem = "is not a name: use letters, digits and underscores, not starting with a digit"
            yield location, f"{name!r} {problem}"
        if (noun, name) in first_locations:
            yield location, f"{noun} {name!r} is declared twice; the first time at {first_locations[noun, name]}"
        first_locations.setdefault((noun, name), location)


def _find_bad_channels(wf: WorkflowSpec) -> Iterator[Problem]:
    return ((channel.location, problem) for channel in wf.channels for problem in channel.find_problems())


def _find_unknown_channels(wf: WorkflowSpec) -> Iterator[Problem]:
    known = {c.name for c in wf.channels}
    for task in wf.list_tasks():
        for port in (r.port for r in task.reads if r.port not in known):
            yield task.location, f"task {task.name!r} reads unknown channel {port!r}{suggest_similar(port, known)}"


def suggest_similar(name: str, known: Iterable[str], noun: str = "channel") -> str:
    names = sorted(known)
    matches = get_close_matches(name, names, n=1)
    if matches:
        return f"; did you mean {matches[0]!r}?"
    return f"; the {noun}s are {', '.join(names)}" if names else f"; no {noun} is declared"


@_check_tasks
def _find_bad_signatures(_wf: WorkflowSpec, task: Task) -> Iterator[str]:
    if not task.writes:
        yield f"task {task.name!r} writes nothing; annotate its result, e.g. '-> tm.Delta'"
    for channel, count in Counter(w.port for w in task.writes).items():
        if count > 1:
            yield f"task {task.name!r} writes channel {channel!r} twice"
    new = {r.port for r in task.reads if r.mode is ReadMode.NEW}
    for read in task.reads:
        if read.mode is ReadMode.OLD and read.port not in new and task.refresh is None:
            yield f"task {task.name!r} reads OLD of {read.port!r}, which needs a NEW of the same channel"
        if read.port in task.state_ports and read.mode is not ReadMode.ALL:
            yield f"task {task.name!r} must read its own state {read.port!r} in mode ALL"
    if isinstance(task.variant.code, Command):
        names = {r.argument for r in task.reads} | {w.argument for w in task.writes}
        for argument in task.variant.code.find_unknown_arguments(names):
            yield f"task {task.name!r}: {argument} names no input or output of it"


def _find_bad_writers(wf: WorkflowSpec) -> Iterator[Problem]:
    writers: dict[str, list[tuple[Task, BlockKind]]] = defaultdict(list)
    for task in wf.list_tasks():
        for write in task.writes:
            writers[write.port].append((task, write.kind))
    for name, tasks_and_kinds in writers.items():
        channel = wf.find_channel(name)
        if channel is not None and channel.role is ChannelRole.INPUT:
            for task, _ in tasks_and_kinds:
                yield task.location, f"task {task.name!r} writes {name!r}, which is an input channel"
        others, last = ", ".join(repr(t.name) for t, _ in tasks_and_kinds), tasks_and_kinds[-1][0].location
        if len(tasks_and_kinds) > 1 and any(kind is BlockKind.BASE for _, kind in tasks_and_kinds):
            yield last, f"tasks {others} all write {name!r}, and a base by one would undo the others"
        if len(tasks_and_kinds) > 1 and any(name in t.state_ports for t, _ in tasks_and_kinds):
            yield last, f"{name!r} is the state of a task, but {others} all write it"
    for channel in wf.channels:
        if channel.role is ChannelRole.DERIVED and channel.name not in writers:
            problem = f"no task writes channel {channel.name!r}; declare it with input() if it receives inserts"
            yield channel.location, problem


def _find_cycles(wf: WorkflowSpec) -> Iterator[Problem]:
    tasks = list(wf.list_tasks())
    try:
        list(TopologicalSorter(_build_graph(tasks)).static_order())
    except CycleError as error:
        names = " <- ".join(tasks[i].name for i in error.args[1])
        location = tasks[error.args[1][0]].location
        yield location, f"cycle of tasks: {names}; only a task's own state channel may be read back"


def _build_graph(tasks: Sequence[Task]) -> dict[int, set[int]]:
    """For each task, by its index, the tasks whose outputs it reads, except its own state."""
    writers: dict[str, set[int]] = defaultdict(set)
    for i, task in enumerate(tasks):
        for write in task.writes:
            writers[write.port].add(i)
    return {
        i: {w for r in task.reads if r.port not in task.state_ports for w in writers[r.port]}
        for i, task in enumerate(tasks)
    }


@_check_tasks
def _find_column_mismatches(wf: WorkflowSpec, task: Task) -> Iterator[str]:
    """A query's columns must be those of the channel it writes, where both are known; Spark checks the types."""
    code, channel = task.variant.code, _find_result_channel(wf, task)
    if not isinstance(code, Sql | Refresh) or channel is None or channel.schema is None:
        return
    names = [n for n in code.list_column_names() if n not in RESERVED_COLUMNS]
    expected = channel.schema.names
    if "*" not in names and sorted(names) != sorted(expected):
        yield (
            f"query {task.name!r} returns the columns {', '.join(names)}, but channel {channel.name!r} "
            f"(declared at {channel.location}) has {', '.join(expected)}"
        )


def _find_result_channel(wf: WorkflowSpec, task: Task) -> Channel | None:
    """The channel of a query's result; the internal state of a declared table is written to other channels."""
    code = task.variant.code
    writes = [w for w in task.writes if not isinstance(code, Refresh) or w.argument == code.table]
    return wf.find_channel(writes[0].port) if writes else None


@_check_tasks
def _find_strict_violations(_wf: WorkflowSpec, task: Task) -> Iterator[str]:
    if task.refresh == "incremental_strict" and task.batch_reason is not None:
        yield (
            f"query {task.name!r} must be incremental (refresh is 'incremental_strict') but can only be run in "
            f"batch: {task.batch_reason}; change the query, or let refresh be 'auto'"
        )


def _find_unsigned_results(wf: WorkflowSpec) -> Iterator[Problem]:
    """A refresh gives its changes to readers as signed rows; only full contents fit other merge kinds."""
    for task in wf.list_tasks():
        channel = _find_result_channel(wf, task) if isinstance(task.variant.code, Refresh) else None
        if channel is not None and not isinstance(channel.updates, Append | Signed):
            yield (
                channel.location,
                f"channel {channel.name!r} is declared with {channel.updates.name} updates, but query {task.name!r} "
                f"(declared at {task.location}) gives its changes as signed rows; leave key= and updates= out, "
                "or make the query a programmed task with writes=tm.Base",
            )


def _find_duplicate_tasks(wf: WorkflowSpec) -> Iterator[Problem]:
    for binding in wf.bindings:
        counts = Counter(t.name for t in binding.tasks)
        for name, count in counts.items():
            if count > 1:
                yield binding.location, f"flow {binding.name!r} has {count} tasks named {name!r}"


def _find_bad_triggers(wf: WorkflowSpec) -> Iterator[Problem]:
    """A trigger may wait for channels and flows of other workflows, but not for its own flow."""
    for binding in wf.bindings:
        for trigger in binding.triggers:
            yield from ((binding.location, f"flow {binding.name!r}: {problem}") for problem in find_problems(trigger))
            for _, leaf in list_leaves(trigger):
                if isinstance(leaf, DataTrigger) and leaf.channel in binding.written_channels:
                    yield binding.location, f"flow {binding.name!r} would be run by its own data on {leaf.channel!r}"
                if isinstance(leaf, RunTrigger) and leaf.flow == binding.name:
                    yield binding.location, f"flow {binding.name!r} would be run by its own runs"


def find_dangling_triggers(workflow: WorkflowSpec, channels: Iterable[str], flows: Iterable[str]) -> Iterator[str]:
    """Problems of triggers that wait for a channel or flow outside the given ones, which are those of all workflows."""
    known = {"channel": {*channels}, "flow": {*flows}}
    for binding in workflow.bindings:
        leaves = [leaf for trigger in binding.triggers for _, leaf in list_leaves(trigger)]
        targets = [
            ("channel", leaf.channel) if isinstance(leaf, DataTrigger) else ("flow", leaf.flow)
            for leaf in leaves
            if isinstance(leaf, DataTrigger | RunTrigger)
        ]
        for noun, target in targets:
            if target not in known[noun]:
                yield (
                    f"{binding.location}: flow {binding.name!r} waits for {noun} {target!r}, which no workflow "
                    f"declares, and would never run{suggest_similar(target, known[noun], noun)}; "
                    "if another workflow declares it, apply that workflow first"
                )


@_check_tasks
def _find_stateful_problems(_wf: WorkflowSpec, task: Task) -> Iterator[str]:
    if isinstance(task.variant.code, Stateful) and is_resolved(task):
        yield from (f"task {task.name!r}: {problem}" for problem in task.variant.code.find_problems())


def is_resolved(task: Task) -> bool:
    """Whether the columns of the events are known to which a task adds windows or waves; true for other tasks."""
    code = task.variant.code
    return not isinstance(code, WindowTaskSpec | WaveStartSpec) or bool(code.schema.fields)


def find_unresolved_tasks(workflow: WorkflowSpec) -> Iterator[str]:
    """Problems of windows and waves over channels whose columns are not known, even by Spark's analysis."""
    for task in (t for t in workflow.list_tasks() if not is_resolved(t)):
        noun, source = "windows" if isinstance(task.variant.code, WindowTaskSpec) else "waves", task.reads[0].port
        problem = f"{noun} {task.name!r} are over {source!r}, whose columns are not known"
        yield f"{task.location}: {problem}; declare them with table({source!r}, '…')"


VALIDATION_RULES: tuple[Rule, ...] = (
    _find_bad_names,
    _find_bad_channels,
    _find_bad_signatures,
    _find_unknown_channels,
    _find_bad_writers,
    _find_column_mismatches,
    _find_strict_violations,
    _find_unsigned_results,
    _find_cycles,
    _find_duplicate_tasks,
    _find_stateful_problems,
    _find_bad_triggers,
)


def sort_tasks(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks in topological order; in the given order if they form a cycle."""
    ordered = list(tasks)
    try:
        return tuple(ordered[i] for i in TopologicalSorter(_build_graph(ordered)).static_order())
    except CycleError:
        return tuple(ordered)


RefreshGroups = Mapping[str, Sequence[BoundFlow]]
"""By name, tables that form one bound flow, and so are refreshed by one dispatched job, run and commit."""


def merge_bindings(name: str, parts: Sequence[BoundFlow]) -> BoundFlow:
    """One flow of all the parts. Any part's trigger makes it due, and its priority is the sum of theirs."""
    tasks = sort_tasks(task for part in parts for task in part.tasks)
    triggers = tuple(dict.fromkeys(trigger for part in parts for trigger in part.triggers))
    return BoundFlow(name, tasks, parts[0].location, triggers, fsum(part.priority for part in parts))


def find_unrelated_groups(groups: RefreshGroups) -> Iterator[str]:
    """Problems of groups whose tables read no common channel: such tables would only wait for each other."""
    for name, parts in groups.items():
        if not frozenset.intersection(*(part.read_channels for part in parts)):
            tables = ", ".join(part.name for part in parts)
            yield (
                f"{parts[0].location}: tables of refresh_group={name!r} read no channel in common ({tables}); "
                "group only tables that read the same channel"
            )
