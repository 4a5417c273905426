"""Tasks with state: the channels that they keep and write, and windows on channels whose columns become known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tidemill.model.change import Append, Upsert
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.stateful import Stateful, WindowTaskSpec
from tidemill.model.task import Task
from tidemill.model.wave_steps import WaveStartSpec
from tidemill.model.workflow import sort_tasks


def add_state_channels(
    channels: Sequence[Channel], bindings: Sequence[BoundFlow]
) -> tuple[tuple[Channel, ...], tuple[BoundFlow, ...]]:
    """All channels with those that tasks with state imply, and these tasks with the columns of what they read."""
    known = {c.name: c for c in channels}
    implied: dict[str, Channel] = {}
    worked_out: dict[tuple[str, str], Task] = {}
    owners = {id(t): b.name for b in bindings for t in b.tasks}
    for task in sort_tasks(t for b in bindings for t in b.tasks):
        if isinstance(task.variant.code, Stateful):
            found = _resolve_columns(task, {**known, **implied})
            worked_out[owners[id(task)], task.name] = found
            implied |= {c.name: c for c in _list_implied_channels(found) if c.name not in known}
    changed = tuple(
        replace(b, tasks=tuple(worked_out.get((b.name, t.name), t) for t in b.tasks)) for b in bindings
    )  # fmt: skip
    return (*channels, *implied.values()), changed


def _resolve_columns(task: Task, known: Mapping[str, Channel]) -> Task:
    code = task.variant.code
    source = known.get(task.reads[0].port)
    if not isinstance(code, WindowTaskSpec | WaveStartSpec) or source is None or source.schema is None:
        return task
    found = code.bind_schema(source.updates.build_delta_schema(source.schema), fed=source.role is ChannelRole.INPUT)
    return replace(task, variants=(replace(task.variant, code=found),))


def _list_implied_channels(task: Task) -> Iterator[Channel]:
    """A channel for each kind of state and each output."""
    code = task.variant.code
    assert isinstance(code, Stateful)
    for write in task.writes:
        kept = code.states.get(write.argument)
        if kept is not None:
            yield Channel(write.port, ChannelRole.STATE, kept.schema, Upsert(kept.key), task.location)
        else:
            yield Channel(write.port, ChannelRole.DERIVED, code.shapes[write.argument], Append(), task.location)
