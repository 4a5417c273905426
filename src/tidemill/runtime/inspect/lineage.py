"""The lineage of one event: its ancestors and descendants, found by its lineage tag.

Tags are numbered within a channel: where a wave branches, events of both branches may have the same tag, and both are
shown.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidemill.errors import BadInput, NotFound
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.schema import Schema
from tidemill.model.wave import LineageTag
from tidemill.model.wave_steps import WAVE
from tidemill.ports.catalog import ChannelQueries

Row = dict[str, Any]
RowFinder = Callable[[str, str], list[Row]]
"""The rows of a channel that meet a condition."""


class LineageRelation(StrEnum):
    BEFORE = "derives from"
    SAME = "is"
    MADE = "was made into"


@dataclass(frozen=True, slots=True)
class LineageRow:
    """A row of the same wave, above or below an event."""

    relation: LineageRelation  # of the event to this row
    channel: str
    tag: LineageTag
    row: Row
    schema: Schema  # of the row


@dataclass(frozen=True, slots=True)
class EventLineage:
    """An event with its ancestors and descendants, sorted by tag, so that a path reads downwards."""

    channel: str
    tag: LineageTag
    relatives: tuple[LineageRow, ...]


def trace_lineage(channels: ChannelQueries, find: RowFinder, channel: str, text: str) -> EventLineage:
    tag = LineageTag.from_text(text)
    registered = channels.read(channel)
    if _find_tagged_schema(registered.channel) is None:
        raise BadInput(
            f"events of channel {channel!r} have no lineage tags: it has no column {WAVE!r}; use one that has"
        )
    of_workflow = (c.channel for c in channels.list() if c.workflow == registered.workflow)
    tagged = {c.name: schema for c in of_workflow if (schema := _find_tagged_schema(c)) is not None}
    relatives = tuple(sorted(_find_related_rows(find, tagged, tag), key=lambda r: (len(r.tag.path), r.tag, r.channel)))
    if not any(r.relation is LineageRelation.SAME and r.channel == channel for r in relatives):
        raise NotFound(f"channel {channel!r} has no event {text!r}; its tags are in the column {WAVE!r}")
    return EventLineage(channel, tag, relatives)


def _find_tagged_schema(channel: Channel) -> Schema | None:
    """Return the schema of a public channel whose events have lineage tags, or None."""
    is_tagged = channel.role is not ChannelRole.STATE and channel.schema is not None and WAVE in channel.schema
    return channel.schema if is_tagged else None


def _find_related_rows(find: RowFinder, channels: Mapping[str, Schema], tag: LineageTag) -> Iterator[LineageRow]:
    ancestors = ", ".join(f"'{t}'" for t in (*tag.list_ancestors(), tag))
    for channel, schema in channels.items():
        for row in find(channel, f"{WAVE} IN ({ancestors}) OR startswith({WAVE}, '{tag}.')"):
            row_tag = LineageTag.from_text(row[WAVE])
            yield LineageRow(_compare_tags(tag, row_tag), channel, row_tag, row, schema)


def _compare_tags(tag: LineageTag, other: LineageTag) -> LineageRelation:
    if tag == other:
        return LineageRelation.SAME
    return LineageRelation.BEFORE if tag.is_derived_from(other) else LineageRelation.MADE
