"""Rows of the tables as values of the model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Row

from tidemill.model.block import Block, BlockState, File, Kind, Origin, Position
from tidemill.model.channel import Channel, Role
from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.run import Run, RunKind, RunState
from tidemill.model.schema import Schema
from tidemill.model.trigger import AllOf, from_json
from tidemill.ports.records import (
    Cursor,
    Event,
    Firing,
    Reading,
    RegisteredBinding,
    RegisteredChannel,
    RegisteredTrigger,
    Server,
)

AnyRow = Row[Any]

_UNKNOWN = Schema(())


def plain(text: str) -> str:
    """Text that every database can hold: programs also print NUL bytes and half characters."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\ufffd")


def versions_of(binding: AnyRow) -> dict[str, Identity]:
    """The identities of a bound flow's tasks, as they are registered."""
    return {task["name"]: task["identity"] for task in binding.spec["tasks"]}


def block_of(row: AnyRow, files: Iterable[AnyRow] = ()) -> Block:
    return Block(
        id=row.id,
        channel=row.channel,
        seq=row.seq,
        kind=Kind(row.kind),
        schema=row.schema or _UNKNOWN,
        since=row.since,
        updates=row.updates,
        files=tuple(File(f.path, f.rows, f.bytes) for f in files),
        source=row.source,
        target=row.target,
        identity=row.identity,
        origin=Origin(row.origin),
        state=BlockState(row.state),
        pinned=row.pinned,
        run=row.run_id,
        task=row.task,
        version=(row.visible or None) if row.role == Role.INPUT else None,
        reached=row.reached,
        content=row.content,
        edge=row.edge,
    )


OUTLINE = ("id", "seq", "kind", "since", "schema", "updates", "origin", "state", "run_id", "task")
"""Columns that say where a block stands; the others take long to read when there are very many blocks."""


def outline_of(row: AnyRow, channel: str) -> Block:
    return Block(
        id=row.id,
        channel=channel,
        seq=row.seq,
        kind=Kind(row.kind),
        schema=row.schema or _UNKNOWN,
        since=row.since,
        updates=row.updates,
        origin=Origin(row.origin),
        state=BlockState(row.state),
        run=row.run_id,
        task=row.task,
    )


def position_of(row: AnyRow) -> Position:
    return Position(row.seq, row.reached, row.content)


def position_values(position: Position) -> Json:
    return {"seq": position.seq, "reached": position.reached, "content": position.content}


def head_of(row: AnyRow) -> Position:
    return Position(row.head_seq, row.head_reached, row.head_content)


def head_values(position: Position) -> Json:
    return {f"head_{name}": value for name, value in position_values(position).items()}


def channel_of(row: AnyRow, reserved: Mapping[int, int]) -> RegisteredChannel:
    """`reserved` counts the slots held, by channel id."""
    channel = Channel(row.name, Role(row.role), row.schema, row.updates, promise=row.promise)
    return RegisteredChannel(
        channel, head_of(row), row.blocks, row.rows, row.bytes, reserved.get(row.id, 0), row.workflow, row.declared
    )


def binding_of(row: AnyRow) -> RegisteredBinding:
    return RegisteredBinding(row.name, row.workflow, row.identity, row.spec)


def cursor_of(row: AnyRow) -> Cursor:
    return Cursor(row.binding, row.task, row.channel, position_of(row))


def run_of(row: AnyRow) -> Run:
    return Run(
        id=row.id,
        kind=RunKind(row.kind),
        subject=row.subject,
        state=RunState(row.state),
        attempt=row.attempt,
        fence=row.fence,
        created=row.created,
        lost=row.lost,
        owner=row.owner,
        lease_until=row.lease_until,
        not_before=row.not_before,
        started=row.started,
        finished=row.finished,
        error=row.error,
        stats=row.stats,
        backfill=row.backfill,
        due=row.due,
        asked=row.asked,
    )


def reading_of(row: AnyRow) -> Reading:
    return Reading(row.run_id, row.task, row.channel, row.since, row.upto)


def event_of(row: AnyRow) -> Event:
    return Event(row.id, row.at, row.kind, row.subject, row.run_id, row.detail)


def trigger_of(row: AnyRow) -> RegisteredTrigger:
    leaf = from_json(row.spec)
    assert not isinstance(leaf, AllOf)
    return RegisteredTrigger(
        row.id,
        row.binding,
        row.root,
        leaf,
        due=row.due,
        since=row.since,
        rows=row.rows,
        bytes=row.bytes,
        missed=row.missed,
        fired=row.fired,
        paused=row.paused,
        lead=row.lead,
    )


def firing_of(row: AnyRow) -> Firing:
    return Firing(row.id, row.at, row.flow, from_json(row.trigger), row.missed, row.run_id)


def server_of(row: AnyRow, leaders: Collection[str]) -> Server:
    return Server(
        row.name,
        row.role,
        row.tracks,
        state=row.state,
        started=row.started,
        seen=row.seen,
        leader=row.name in leaders and row.state == "serving",
    )
