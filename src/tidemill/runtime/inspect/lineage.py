"""The lineage of one event: what it derives from, and what was made of it, found by the tag of its wave.

Tags are counted within a channel: where a wave goes two ways, events of both may have the same tag, and both are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidemill.errors import BadInput, NotFound
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.schema import Schema
from tidemill.model.wave import LineageTag
from tidemill.model.wave_steps import WAVE
from tidemill.ports.catalog import CatalogReader

Row = dict[str, Any]
Find = Callable[[str, str], list[Row]]
"""The rows of a channel for which a condition holds."""


class LineageRelation(StrEnum):
    BEFORE = "derives from"
    SAME = "is"
    MADE = "was made into"


@dataclass(frozen=True, slots=True)
class LineageRow:
    """A row that belongs to the same wave, above or below an event."""

    relation: LineageRelation  # of the event to this row
    channel: str
    tag: LineageTag
    row: Row
    schema: Schema  # of the row


@dataclass(frozen=True, slots=True)
class EventLineage:
    """An event, and all that is on its way from outside and on from there; by tag, so that a way reads downwards."""

    channel: str
    tag: LineageTag
    relatives: tuple[LineageRow, ...]


def trace_lineage(catalog: CatalogReader, find: Find, channel: str, text: str) -> EventLineage:
    tag = LineageTag.from_text(text)
    asked = catalog.read_channel(channel)
    if _find_tagged_schema(asked.channel) is None:
        raise BadInput(f"events of channel {channel!r} have no tags: it has no column {WAVE!r}; ask of one that has")
    known = (c.channel for c in catalog.list_channels() if c.workflow == asked.workflow)
    tagged = {c.name: schema for c in known if (schema := _find_tagged_schema(c)) is not None}
    found = tuple(sorted(_find_related_rows(find, tagged, tag), key=lambda r: (len(r.tag.path), r.tag, r.channel)))
    if not any(r.relation is LineageRelation.SAME and r.channel == channel for r in found):
        raise NotFound(f"channel {channel!r} has no event {text!r}; its tags are in the column {WAVE!r}")
    return EventLineage(channel, tag, found)


def _find_tagged_schema(channel: Channel) -> Schema | None:
    """The columns of a channel whose events have tags, for all to see."""
    seen = channel.role is not ChannelRole.STATE and channel.schema is not None and WAVE in channel.schema
    return channel.schema if seen else None


def _find_related_rows(find: Find, channels: Mapping[str, Schema], tag: LineageTag) -> Iterator[LineageRow]:
    above = ", ".join(f"'{t}'" for t in (*tag.list_ancestors(), tag))
    for channel, schema in channels.items():
        for row in find(channel, f"{WAVE} IN ({above}) OR startswith({WAVE}, '{tag}.')"):
            found = LineageTag.from_text(row[WAVE])
            yield LineageRow(_compare_tags(tag, found), channel, found, row, schema)


def _compare_tags(tag: LineageTag, other: LineageTag) -> LineageRelation:
    if tag == other:
        return LineageRelation.SAME
    return LineageRelation.BEFORE if tag.is_derived_from(other) else LineageRelation.MADE
