"""The difference between a declared workflow and the registered one: the changes that `apply` would make."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidemill.model.channel import Channel
from tidemill.model.codec import target_to_json, updates_to_json
from tidemill.model.task import Task
from tidemill.model.workflow import WorkflowSpec


class ChangeKind(StrEnum):
    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class RegistrationChange:
    """One change that `apply` would make."""

    action: ChangeKind
    noun: str  # "channel" or "flow"
    name: str
    detail: str = ""


def diff_registration(
    declared: WorkflowSpec, channels: Iterable[Channel], bindings: Mapping[str, tuple[str, str]]
) -> tuple[RegistrationChange, ...]:
    """The changes to registered channels, and to bound flows, each with its identity and its tasks in one line."""
    registered = {c.name: c for c in channels}
    return (*_diff_channels(declared, registered), *_diff_bindings(declared, bindings))


def _diff_channels(declared: WorkflowSpec, registered: Mapping[str, Channel]) -> Iterator[RegistrationChange]:
    for channel in declared.channels:
        old = registered.get(channel.name)
        if old is None:
            yield RegistrationChange(ChangeKind.ADD, "channel", channel.name, _describe_channel(channel))
        elif changes := _list_channel_changes(old, channel):
            yield RegistrationChange(ChangeKind.CHANGE, "channel", channel.name, "; ".join(changes))
    names = {c.name for c in declared.channels}
    for name in registered:
        if name not in names:
            yield RegistrationChange(ChangeKind.REMOVE, "channel", name, "its data stays")


def _diff_bindings(declared: WorkflowSpec, registered: Mapping[str, tuple[str, str]]) -> Iterator[RegistrationChange]:
    for binding in declared.bindings:
        tasks = ", ".join(map(_format_task, binding.tasks))
        if binding.name not in registered:
            yield RegistrationChange(ChangeKind.ADD, "flow", binding.name, f"tasks {tasks}")
        elif registered[binding.name][0] != binding.compute_identity():
            yield RegistrationChange(ChangeKind.CHANGE, "flow", binding.name, f"tasks {tasks}")
    names = {b.name for b in declared.bindings}
    for name, (_, tasks) in registered.items():
        if name not in names:
            yield RegistrationChange(ChangeKind.REMOVE, "flow", name, f"tasks {tasks}")


def _format_task(task: Task) -> str:
    """A task's name; for a declared table also its refresh mode."""
    if task.refresh is None:
        return task.name
    batch = f", only in batch: {task.batch_reason}" if task.batch_reason is not None else ""
    return f"{task.name} (refresh {task.refresh}{batch})"


def _describe_channel(channel: Channel) -> str:
    schema = str(channel.schema).replace("`", "").lower() if channel.schema else "schema of the first block"
    key = f", key {', '.join(channel.updates.key)}" if channel.updates.key else ""
    return f"{channel.role}, {channel.updates.name}{key}: {schema}"


def _list_channel_changes(old: Channel, new: Channel) -> list[str]:
    changes = []
    if old.role != new.role:
        changes.append(f"role {old.role} -> {new.role}")
    if updates_to_json(old.updates) != updates_to_json(new.updates):
        changes.append(f"updates {updates_to_json(old.updates)} -> {updates_to_json(new.updates)}")
    if new.schema is not None and old.schema is not None and str(old.schema) != str(new.schema):
        changes.append(old.schema.describe_difference(new.schema) or "nullability or order of columns")
    if target_to_json(old.freshness_target) != target_to_json(new.freshness_target):
        changes.append(
            f"freshness target {target_to_json(old.freshness_target)} -> {target_to_json(new.freshness_target)}"
        )
    return changes
