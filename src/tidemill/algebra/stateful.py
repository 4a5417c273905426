"""Tasks with state: the channels that they keep and write, and windows on channels whose columns become known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tidemill.model.change import Append, Upsert
from tidemill.model.channel import Channel, Role
from tidemill.model.flow import Binding
from tidemill.model.stateful import Stateful, Windowed
from tidemill.model.task import Task
from tidemill.model.wave_steps import Started
from tidemill.model.workflow import in_order


def with_states(
    channels: Sequence[Channel], bindings: Sequence[Binding]
) -> tuple[tuple[Channel, ...], tuple[Binding, ...]]:
    """All channels with those that tasks with state imply, and these tasks with the columns of what they read."""
    known = {c.name: c for c in channels}
    implied: dict[str, Channel] = {}
    worked_out: dict[tuple[str, str], Task] = {}
    owners = {id(t): b.name for b in bindings for t in b.tasks}
    for task in in_order(t for b in bindings for t in b.tasks):
        if isinstance(task.variant.code, Stateful):
            found = _with_columns(task, {**known, **implied})
            worked_out[owners[id(task)], task.name] = found
            implied |= {c.name: c for c in _implied(found) if c.name not in known}
    changed = tuple(
        replace(b, tasks=tuple(worked_out.get((b.name, t.name), t) for t in b.tasks)) for b in bindings
    )  # fmt: skip
    return (*channels, *implied.values()), changed


def _with_columns(task: Task, known: Mapping[str, Channel]) -> Task:
    code = task.variant.code
    source = known.get(task.reads[0].port)
    if not isinstance(code, Windowed | Started) or source is None or source.schema is None:
        return task
    found = code.over(source.updates.delta_schema(source.schema), fed=source.role is Role.INPUT)
    return replace(task, variants=(replace(task.variant, code=found),))


def _implied(task: Task) -> Iterator[Channel]:
    """A channel for each kind of state and each output."""
    code = task.variant.code
    assert isinstance(code, Stateful)
    for write in task.writes:
        kept = code.states.get(write.argument)
        if kept is not None:
            yield Channel(write.port, Role.STATE, kept.schema, Upsert(kept.key), task.location)
        else:
            yield Channel(write.port, Role.DERIVED, code.shapes[write.argument], Append(), task.location)
