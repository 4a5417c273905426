"""Parses and checks the parts of a declaration: each problem names the source location where the user wrote it."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidemill.api.marks import REFRESH, STATE, Key, Reading, Writing, locate_value_error
from tidemill.errors import WorkflowError
from tidemill.model.block import BlockKind
from tidemill.model.change import Append, Updates, Upsert
from tidemill.model.flow import FlowSpec as FlowModel
from tidemill.model.location import SourceLocation
from tidemill.model.schema import Schema
from tidemill.model.task import ReadMode, TaskInput, TaskOutput


def parse_schema(channel: str, ddl: str | None, where: SourceLocation) -> Schema | None:
    with locate_value_error(f"{where}: channel {channel!r}"):
        return None if ddl is None else Schema.from_ddl(ddl)


def choose_updates(channel: str, key: Key | None, updates: Updates | None, where: SourceLocation) -> Updates:
    if key is not None and updates is not None:
        raise WorkflowError([f"{where}: channel {channel!r}: give key= (upserts) or updates=, not both"])
    if updates is not None:
        return updates
    return Append() if key is None else Upsert((key,) if isinstance(key, str) else tuple(key))


def check_refresh(name: str, refresh: str, where: SourceLocation) -> None:
    if refresh not in REFRESH:
        raise WorkflowError(
            [f"{where}: table {name!r}: expected refresh to be one of {', '.join(REFRESH)}, found {refresh!r}"]
        )


def parse_reads(
    fn: Callable[..., Any], channels: dict[str, str], given: set[str], where: SourceLocation
) -> tuple[TaskInput, ...]:
    reads = []
    for argument in inspect_signature(fn).parameters.values():
        mode = getattr(argument.annotation, "mode", None)
        if isinstance(mode, ReadMode):
            reads.append(TaskInput(argument.name, channels.get(argument.name, argument.name), mode))
        elif argument.name not in given and argument.default is inspect.Parameter.empty:
            raise WorkflowError(
                [f"{where}: annotate argument {argument.name!r} of {fn.__name__!r}: tm.All, tm.New or tm.Old"]
            )
    unknown = sorted(set(channels) - {a.name for a in inspect_signature(fn).parameters.values()} - {fn.__name__})
    if unknown:
        raise WorkflowError([f"{where}: {fn.__name__!r} has no argument {unknown[0]!r}, which channels contains"])
    return tuple(reads)


def parse_writes(
    fn: Callable[..., Any],
    output: str | None,
    writes: Mapping[str, Writing] | None,
    channels: dict[str, str],
    where: SourceLocation,
) -> tuple[TaskOutput, ...]:
    if writes is not None:
        return tuple(TaskOutput(n, channels.get(n, n), parse_kind(w, where)) for n, w in writes.items())
    kind = getattr(inspect_signature(fn).return_annotation, "kind", None)
    if not isinstance(kind, BlockKind):
        raise WorkflowError([f"{where}: annotate the result of {fn.__name__!r}: '-> tm.Delta' or '-> tm.Base'"])
    name = output or fn.__name__
    return (TaskOutput(name, name, kind),)


def check_keyed_signature(fn: Callable[..., Any], reads: Sequence[TaskInput], where: SourceLocation) -> None:
    first = next(iter(inspect_signature(fn).parameters), None)
    new = [r for r in reads if r.mode is ReadMode.NEW]
    if first != STATE or len(new) != 1 or any(r.mode is ReadMode.OLD for r in reads):
        raise WorkflowError(
            [
                f"{where}: keyed task {fn.__name__!r} is called as fn(state, batch, …): expected a first argument "
                f"'state', one that is tm.New, and others that are tm.All: def {fn.__name__}(state, events: tm.New)"
            ]
        )


def parse_mode(reading: Reading, where: SourceLocation) -> ReadMode:
    mode = getattr(reading, "mode", None)
    if isinstance(mode, ReadMode):
        return mode
    raise WorkflowError([f"{where}: expected tm.All, tm.New or tm.Old, found {reading!r}"])


def parse_kind(writing: Writing, where: SourceLocation) -> BlockKind:
    kind = getattr(writing, "kind", None)
    if isinstance(kind, BlockKind):
        return kind
    raise WorkflowError([f"{where}: expected tm.Base or tm.Delta, found {writing!r}"])


def inspect_signature(fn: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(fn, eval_str=True)


def check_ports(flow: FlowModel, ports: Mapping[str, str], where: SourceLocation) -> None:
    unknown = sorted(set(ports) - flow.ports)
    if unknown:
        known_ports = ", ".join(sorted(flow.ports)) or "none"
        raise WorkflowError([f"{where}: flow {flow.name!r} has no port {unknown[0]!r}; its ports are {known_ports}"])
