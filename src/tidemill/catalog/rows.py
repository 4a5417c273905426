"""Conversion of table rows to values of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Row

from tidemill.model.block import Block, BlockKind, BlockOrigin, BlockState, ChannelPosition, DataFile
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.run import Run, RunKind, RunState
from tidemill.model.schema import Schema
from tidemill.ports.records import (
    ChannelRead,
    Event,
    RegisteredChannel,
)

AnyRow = Row[Any]

_UNKNOWN = Schema(())


def sanitize_text(text: str) -> str:
    """Text that every database can store: program output may contain NUL bytes and lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\ufffd")


def to_task_versions(binding: AnyRow) -> dict[str, Identity]:
    """The registered identities of a bound flow's tasks."""
    return {task["name"]: task["identity"] for task in binding.spec["tasks"]}


def to_block(row: AnyRow, files: Iterable[AnyRow] = ()) -> Block:
    return Block(
        id=row.id,
        channel=row.channel,
        seq=row.seq,
        kind=BlockKind(row.kind),
        schema=row.schema or _UNKNOWN,
        since=row.since,
        updates=row.updates,
        files=tuple(DataFile(f.path, f.rows, f.bytes) for f in files),
        source=row.source,
        target=row.target,
        identity=row.identity,
        origin=BlockOrigin(row.origin),
        state=BlockState(row.state),
        pinned=row.pinned,
        run=row.run_id,
        task=row.task,
        version=(row.visible or None) if row.role == ChannelRole.INPUT else None,
        channel_provenance=row.provenance,
        content_identity=row.content,
        watermark=row.watermark,
    )


OUTLINE_COLUMNS = ("id", "seq", "kind", "since", "schema", "updates", "origin", "state", "run_id", "task")
"""Columns of a block's outline; the others are slow to read for very many blocks."""


def to_block_outline(row: AnyRow, channel: str) -> Block:
    return Block(
        id=row.id,
        channel=channel,
        seq=row.seq,
        kind=BlockKind(row.kind),
        schema=row.schema or _UNKNOWN,
        since=row.since,
        updates=row.updates,
        origin=BlockOrigin(row.origin),
        state=BlockState(row.state),
        run=row.run_id,
        task=row.task,
    )


def to_position(row: AnyRow) -> ChannelPosition:
    return ChannelPosition(row.seq, row.provenance, row.content)


def to_position_values(position: ChannelPosition) -> Json:
    return {"seq": position.seq, "provenance": position.provenance, "content": position.content_identity}


def to_head(row: AnyRow) -> ChannelPosition:
    return ChannelPosition(row.head_seq, row.head_provenance, row.head_content)


def to_head_values(position: ChannelPosition) -> Json:
    return {f"head_{name}": value for name, value in to_position_values(position).items()}


def to_channel(row: AnyRow, reserved: Mapping[int, int]) -> RegisteredChannel:
    """`reserved` is the number of open reservations by channel id."""
    channel = Channel(row.name, ChannelRole(row.role), row.schema, row.updates, freshness_target=row.freshness_target)
    return RegisteredChannel(
        channel,
        to_head(row),
        row.blocks,
        row.rows,
        row.bytes,
        reserved.get(row.id, 0),
        row.workflow,
        row.declared_schema,
    )


def to_run(row: AnyRow) -> Run:
    return Run(
        id=row.id,
        kind=RunKind(row.kind),
        subject=row.subject,
        state=RunState(row.state),
        attempt=row.attempt,
        fencing_token=row.fencing_token,
        created=row.created,
        lost_attempts=row.lost_attempts,
        owner=row.owner,
        lease_until=row.lease_until,
        not_before=row.not_before,
        started=row.started,
        finished=row.finished,
        error=row.error,
        stats=row.stats,
        backfill=row.backfill,
        due=row.due,
        requested=row.requested,
    )


def to_channel_read(row: AnyRow) -> ChannelRead:
    return ChannelRead(row.run_id, row.task, row.channel, row.since, row.upto)


def to_event(row: AnyRow) -> Event:
    return Event(row.id, row.at, row.kind, row.subject, row.run_id, row.detail)
