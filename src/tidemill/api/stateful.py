"""Tasks with state and windows, as users declare them: what `api` makes tasks of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidemill.errors import WorkflowError
from tidemill.model.block import Kind
from tidemill.model.change import Upsert
from tidemill.model.location import Location
from tidemill.model.schema import Schema
from tidemill.model.stateful import Kept, Keyed, Operated, Stateful, Windowed
from tidemill.model.task import Mode, Read, Retry, Task, Variant, Write
from tidemill.model.wave_steps import Ended, Started, Synched, ended_of
from tidemill.model.window import Between, Window

Key = str | Sequence[str]
Made = Callable[[str], bool]
"""Does a task that was declared before write this channel?"""


@dataclass(frozen=True, slots=True)
class OnInput:
    """A window on an argument of a task, with what it needs besides."""

    window: Window


def window(
    size: str | Between,
    step: str | None = None,
    *,
    by: Sequence[str] = (),
    timeout: float | None = None,
    delete_used: bool = False,
    at_least: int = 1,
    time: str | None = None,
) -> OnInput:
    """A window on a task's input: `clicks: Annotated[tm.New, tm.window("30s", "1s", by=["user"])]`.

    The task is given the rows of the windows that were formed, each with `_group`, `_window` (its number in the group),
    `_window_start`, `_window_end` and `_window_formed`. docs/streams.md says what the arguments mean.
    """
    return OnInput(Window.of(size, step, by=by, timeout=timeout, delete_used=delete_used, at_least=at_least, time=time))


def state(ddl: str, key: Key) -> Kept:
    """Rows of state of a stateful task: their columns, and the key by which a later row replaces an earlier one."""
    return Kept.parse(ddl, key if isinstance(key, str) else tuple(key))


def keyed_code(
    call: Callable[..., Any], ddl: str, by: Key, writes: Mapping[str, str], partitions: int, where: Location
) -> Keyed:
    try:
        return Keyed(call, state(ddl, by), _schemas(writes), partitions)
    except ValueError as error:
        raise WorkflowError([f"{where}: keyed task {call.__name__!r}: {error}"]) from error


def operated_code(
    name: str, make: Callable[..., Any], states: Mapping[str, Kept], writes: Mapping[str, str], where: Location
) -> Operated:
    try:
        return Operated(make, dict(states), _schemas(writes))
    except ValueError as error:
        raise WorkflowError([f"{where}: stateful task {name!r}: {error}"]) from error


def stateful_task(
    name: str, code: Stateful, reads: Sequence[Read], writes: Mapping[str, str], where: Location, **limits: Any
) -> Task:
    """A task whose state lies in channels named after it; `writes` gives the channel of each output."""
    states = {argument: f"{name}.{argument}" for argument in code.states}
    kept = (Write(a, port, Kind.DELTA, Upsert(code.states[a].key)) for a, port in states.items())
    variant = Variant(
        "programmed",
        (*reads, *(Read(a, port, Mode.ALL) for a, port in states.items())),
        (*kept, *(Write(a, port, Kind.DELTA) for a, port in writes.items())),
        code,
    )
    return Task(name, (variant,), location=where, **limits)


def window_task(name: str, of: str, code: Windowed, made: Made, where: Location, retry: Retry | None = None) -> Task:
    """The task that forms windows: they go to the channel `name`, the others to channels beside it."""
    writes = {Windowed.WINDOWS: name, Windowed.EXPIRED: f"{name}_expired", Windowed.LATE: f"{name}_late"}
    words = _words(Windowed.ENDED, of, made) if code.by_waves else []
    task = stateful_task(name, code, [Read(Windowed.ARGUMENT, of, Mode.NEW), *words], writes, where)
    return task if retry is None else replace(task, retry=retry)


def windows_of(task: Task, annotations: Mapping[str, Any], made: Made) -> Iterator[Task]:
    """The tasks that form the windows on the arguments of a task."""
    for read in task.reads:
        for given in getattr(annotations.get(read.argument), "__metadata__", ()):
            if isinstance(given, OnInput):
                code = Windowed(given.window)
                yield window_task(_windows_name(task, read), read.port, code, made, task.location, task.retry)


def on_windows(task: Task, formed: Sequence[Task]) -> Task:
    """The task with its windowed arguments read from the windows."""
    names = {f.name for f in formed}
    read = {r.argument: name for r in task.reads if (name := _windows_name(task, r)) in names}
    reads = tuple(replace(r, port=read.get(r.argument, r.port)) for r in task.reads)
    return replace(task, variants=(replace(task.variant, reads=reads),))


def started_task(name: str, of: str, where: Location) -> Task:
    """The task with which waves start: the events of a channel, each with the tag of its wave."""
    return stateful_task(name, Started(), [Read(Started.ARGUMENT, of, Mode.NEW)], {Started.EVENTS: name}, where)


def ended_tasks(task: Task, of: str, made: Made) -> list[Task]:
    """For each output of a task, the one that passes on which events of a channel ended in it."""
    return [_ended_task(write.port, of, made, task.location) for write in task.writes]


def _ended_task(output: str, of: str, made: Made, where: Location) -> Task:
    reads = [Read(Ended.EVENTS, of, Mode.NEW), Read(Ended.RESULTS, output, Mode.NEW), *_words(Ended.BEFORE, of, made)]
    return stateful_task(ended_of(output), Ended(), reads, {Ended.ENDED: ended_of(output)}, where)


def synched_task(name: str, branches: Sequence[str], made: Made, where: Location) -> Task:
    """The task that tells which waves are complete on all branches."""
    words = {ended_of(branch): branch for branch in branches if made(ended_of(branch))}
    code = Synched({branch: branch for branch in branches} | words)
    reads = [Read(channel, channel, Mode.NEW) for channel in code.branches]
    return stateful_task(name, code, reads, {Synched.WAVES: name}, where)


def _words(argument: str, of: str, made: Made) -> list[Read]:
    """How to hear which events ended on the way to a channel, if somebody says so."""
    return [Read(argument, ended_of(of), Mode.NEW)] if made(ended_of(of)) else []


def _windows_name(task: Task, read: Read) -> str:
    return f"{task.name}_{read.argument}"


def _schemas(writes: Mapping[str, str]) -> dict[str, Schema]:
    return {name: Schema.parse(ddl) for name, ddl in writes.items()}
