"""Conversion of table rows to values of the model."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import Row

from tidemill.model.block import Block, BlockKind, ChannelPosition, DataFile
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.codec import Json
from tidemill.model.run import Run
from tidemill.model.schema import Schema
from tidemill.model.task import ReadMode
from tidemill.ports.records import ChannelRead, Event, RegisteredBinding, RegisteredChannel, RegisteredTask

AnyRow = Row[Any]
R = TypeVar("R")

_UNKNOWN = Schema(())


def build_reader(kind: Callable[..., R], **columns: str) -> Callable[[Any], R]:
    """A conversion of rows to a dataclass, whose fields have the names of their columns but for those in `columns`."""
    get_values = attrgetter(*(columns.get(name, name) for name in kind.__dataclass_fields__))  # type: ignore[attr-defined]
    return lambda row: kind(*get_values(row))


def sanitize_text(text: str) -> str:
    """Text that every database can store: program output may contain NUL bytes and lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\ufffd")


def to_binding(row: AnyRow) -> RegisteredBinding:
    tasks = tuple(to_task(task) for task in row.spec["tasks"])
    values = (row.spec.get("attempts", 1), row.spec.get("priority", 1.0))
    return RegisteredBinding(row.name, row.workflow, row.identity, tasks, *values)


def to_task(spec: Json) -> RegisteredTask:
    """A task as `codec.task_to_json` wrote it."""
    reads = tuple((read["channel"], ReadMode(read["mode"])) for read in spec["reads"])
    writes = tuple((write["channel"], BlockKind(write["kind"])) for write in spec["writes"])
    signature = (spec["name"], spec["identity"], spec["code"], reads, writes)
    return RegisteredTask(*signature, spec["location"], spec.get("has_watermark", False))


def to_block(row: AnyRow, files: Iterable[AnyRow] = ()) -> Block:
    return to_block_outline(
        row,
        row.channel,
        files=tuple(_to_file(file) for file in files),
        source=row.source,
        target=row.target,
        identity=row.identity,
        pinned=row.pinned,
        version=(row.visible or None) if row.role == ChannelRole.INPUT else None,
        channel_provenance=row.provenance,
        content_identity=row.content,
        watermark=row.watermark,
    )


OUTLINE_COLUMNS = ("id", "seq", "kind", "since", "schema", "updates", "origin", "state", "run_id", "task")
"""Columns of a block's outline; the others are slow to read for very many blocks."""


def to_block_outline(row: AnyRow, channel: str, **details: Any) -> Block:
    copied = {name: getattr(row, name) for name in ("id", "seq", "kind", "since", "updates", "origin", "state", "task")}
    return Block(channel=channel, schema=row.schema or _UNKNOWN, run=row.run_id, **copied, **details)


def to_position(row: AnyRow) -> ChannelPosition:
    return ChannelPosition(row.seq, row.provenance, row.content)


def to_position_values(position: ChannelPosition) -> Json:
    return {"seq": position.seq, "provenance": position.provenance, "content": position.content_identity}


def to_head(row: AnyRow) -> ChannelPosition:
    return ChannelPosition(row.head_seq, row.head_provenance, row.head_content)


def to_head_values(position: ChannelPosition) -> Json:
    return {f"head_{name}": value for name, value in to_position_values(position).items()}


def to_channel(row: AnyRow) -> RegisteredChannel:
    channel = Channel(row.name, row.role, row.schema, row.updates, freshness_target=row.freshness_target)
    totals = (row.blocks, row.rows, row.bytes, row.reserved)
    return RegisteredChannel(channel, to_head(row), *totals, row.workflow, row.declared_schema)


_to_file = build_reader(DataFile)
to_run = build_reader(Run)
to_channel_read = build_reader(ChannelRead, run="run_id")
to_event = build_reader(Event, run="run_id")
