"""Stateful tasks: the channels that they imply, and window tasks on channels whose columns become known."""

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
    """All channels with those that stateful tasks imply, and these tasks with the columns that they read."""
    known = {c.name: c for c in channels}
    implied: dict[str, Channel] = {}
    resolved: dict[tuple[str, str], Task] = {}
    owners = {id(t): b.name for b in bindings for t in b.tasks}
    for task in sort_tasks(t for b in bindings for t in b.tasks):
        if isinstance(task.variant.code, Stateful):
            resolved_task = _resolve_columns(task, {**known, **implied})
            resolved[owners[id(task)], task.name] = resolved_task
            implied |= {c.name: c for c in _list_implied_channels(resolved_task) if c.name not in known}
    resolved_bindings = tuple(
        replace(b, tasks=tuple(resolved.get((b.name, t.name), t) for t in b.tasks)) for b in bindings
    )  # fmt: skip
    return (*channels, *implied.values()), resolved_bindings


def _resolve_columns(task: Task, known: Mapping[str, Channel]) -> Task:
    code = task.variant.code
    source = known.get(task.reads[0].port)
    if not isinstance(code, WindowTaskSpec | WaveStartSpec) or source is None or source.schema is None:
        return task
    bound = code.bind_schema(
        source.updates.build_delta_schema(source.schema), is_input=source.role is ChannelRole.INPUT
    )
    return replace(task, variants=(replace(task.variant, code=bound),))


def _list_implied_channels(task: Task) -> Iterator[Channel]:
    """A channel for each kind of state and each output."""
    code = task.variant.code
    assert isinstance(code, Stateful)
    for write in task.writes:
        state = code.states.get(write.argument)
        if state is not None:
            yield Channel(write.port, ChannelRole.STATE, state.schema, Upsert(state.key), task.location)
        else:
            yield Channel(write.port, ChannelRole.DERIVED, code.output_schemas[write.argument], Append(), task.location)
