"""Builds the tasks of stateful functions, operators and windows that users declare."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Signature
from typing import Any, Unpack

from tidemill.api.marks import Key, locate_value_error
from tidemill.model.block import BlockKind
from tidemill.model.change import Upsert
from tidemill.model.location import SourceLocation
from tidemill.model.schema import Schema, StateSchema
from tidemill.model.stateful import KeyedTaskSpec, OperatorTaskSpec, Stateful, WindowTaskSpec
from tidemill.model.task import ReadMode, Task, TaskInput, TaskOutput, Variant
from tidemill.model.wave_steps import WaveBarrierSpec, WaveEndSpec, WaveStartSpec, format_ended_channel
from tidemill.model.window import Between, Window, WindowFields

IsWritten = Callable[[str], bool]
"""Tells whether an earlier declared task writes this channel."""


@dataclass(frozen=True, slots=True)
class InputWindow:
    """A window on an argument of a task."""

    window: Window


def window(
    size: str | Between, step: str | None = None, *, by: Sequence[str] = (), **options: Unpack[WindowFields]
) -> InputWindow:
    """Return a window on a task's input: `clicks: Annotated[tm.New, tm.window("30s", "1s", by=["user"])]`.

    The task gets the rows of the formed windows, each with `_group`, `_window` (its number in the group),
    `_window_start`, `_window_end` and `_window_formed`. docs/streams.md explains the arguments.
    """
    return InputWindow(Window.from_text(size, step, by=by, **options))


def state(ddl: str, key: Key) -> StateSchema:
    """Return the schema of a task's state: its columns, and the key by which a later row replaces an earlier one."""
    return StateSchema.from_ddl(ddl, key if isinstance(key, str) else tuple(key))


def build_keyed_code(
    call: Callable[..., Any], ddl: str, by: Key, writes: Mapping[str, str], partitions: int, where: SourceLocation
) -> KeyedTaskSpec:
    with locate_value_error(f"{where}: keyed task {call.__name__!r}"):
        return KeyedTaskSpec(call, state(ddl, by), _parse_schemas(writes), partitions)


def build_operator_code(
    name: str,
    make: Callable[..., Any],
    states: Mapping[str, StateSchema],
    writes: Mapping[str, str],
    where: SourceLocation,
) -> OperatorTaskSpec:
    with locate_value_error(f"{where}: stateful task {name!r}"):
        return OperatorTaskSpec(make, dict(states), _parse_schemas(writes))


def build_stateful_task(name: str, code: Stateful, reads: Sequence[TaskInput], writes: Mapping[str, str]) -> Task:
    """Build a task whose state is in channels named after it; `writes` gives the channel of each output."""
    states = {argument: f"{name}.{argument}" for argument in code.states}
    state_outputs = (TaskOutput(a, port, BlockKind.DELTA, Upsert(code.states[a].key)) for a, port in states.items())
    variant = Variant(
        "programmed",
        (*reads, *(TaskInput(a, port, ReadMode.ALL) for a, port in states.items())),
        (*state_outputs, *(TaskOutput(a, port, BlockKind.DELTA) for a, port in writes.items())),
        code,
    )
    return Task(name, (variant,))


def build_window_task(name: str, channel: str, code: WindowTaskSpec, is_written: IsWritten) -> Task:
    """Build the task that forms windows: they go to the channel `name`, other events to channels next to it."""
    writes = {
        WindowTaskSpec.WINDOWS: name,
        WindowTaskSpec.EXPIRED: f"{name}_expired",
        WindowTaskSpec.LATE: f"{name}_late",
    }
    ended_reads = _build_wave_end_reads(WindowTaskSpec.ENDED, channel, is_written) if code.is_by_waves else []
    events = TaskInput(WindowTaskSpec.ARGUMENT, channel, ReadMode.NEW)
    return build_stateful_task(name, code, [events, *ended_reads], writes)


def build_input_windows(task: Task, signature: Signature, is_written: IsWritten) -> Iterator[Task]:
    """Build the tasks that form the windows on the arguments of a task."""
    for read in task.reads:
        for annotation in getattr(signature.parameters[read.argument].annotation, "__metadata__", ()):
            if isinstance(annotation, InputWindow):
                code, name = WindowTaskSpec(annotation.window), _format_windows_name(task, read)
                window_task = build_window_task(name, read.port, code, is_written)
                yield replace(window_task, location=task.location, retry=task.retry)


def redirect_windowed_reads(task: Task, window_tasks: Sequence[Task]) -> Task:
    """Return the task with its windowed arguments read from the windows."""
    names = {f.name for f in window_tasks}
    read = {r.argument: name for r in task.reads if (name := _format_windows_name(task, r)) in names}
    reads = tuple(replace(r, port=read.get(r.argument, r.port)) for r in task.reads)
    return replace(task, variants=(replace(task.variant, reads=reads),))


def build_wave_start_task(name: str, channel: str) -> Task:
    """Build the task that starts waves: the events of a channel, each with the tag of its wave."""
    reads = [TaskInput(WaveStartSpec.ARGUMENT, channel, ReadMode.NEW)]
    return build_stateful_task(name, WaveStartSpec(), reads, {WaveStartSpec.EVENTS: name})


def build_wave_end_tasks(task: Task, channel: str, is_written: IsWritten) -> list[Task]:
    """Build, for each output of a task, the task that passes on the events of a channel that ended in it."""
    events = TaskInput(WaveEndSpec.EVENTS, channel, ReadMode.NEW)
    before = _build_wave_end_reads(WaveEndSpec.BEFORE, channel, is_written)
    end_tasks = []
    for write in task.writes:
        reads = [events, TaskInput(WaveEndSpec.RESULTS, write.port, ReadMode.NEW), *before]
        ended = format_ended_channel(write.port)
        end_task = build_stateful_task(ended, WaveEndSpec(), reads, {WaveEndSpec.ENDED: ended})
        end_tasks.append(replace(end_task, location=task.location))
    return end_tasks


def build_barrier_task(name: str, branches: Sequence[str], is_written: IsWritten) -> Task:
    """Build the task that emits the waves that are complete on all branches."""
    ended_branches = {
        format_ended_channel(branch): branch for branch in branches if is_written(format_ended_channel(branch))
    }
    code = WaveBarrierSpec({branch: branch for branch in branches} | ended_branches)
    reads = [TaskInput(channel, channel, ReadMode.NEW) for channel in code.branches]
    return build_stateful_task(name, code, reads, {WaveBarrierSpec.WAVES: name})


def _build_wave_end_reads(argument: str, channel: str, is_written: IsWritten) -> list[TaskInput]:
    """Return the input with the events that ended on the way to a channel, if a task writes it."""
    ended = format_ended_channel(channel)
    return [TaskInput(argument, ended, ReadMode.NEW)] if is_written(ended) else []


def _format_windows_name(task: Task, read: TaskInput) -> str:
    return f"{task.name}_{read.argument}"


def _parse_schemas(writes: Mapping[str, str]) -> dict[str, Schema]:
    return {name: Schema.from_ddl(ddl) for name, ddl in writes.items()}
