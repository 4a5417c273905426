"""The lineage of one event: what it derives from, and what was made of it, found by the tag of its wave.

Tags are counted within a channel: where a wave goes two ways, events of both may have the same tag, and both are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidemill.errors import BadInput, NotFound
from tidemill.model.channel import Channel, Role
from tidemill.model.schema import Schema
from tidemill.model.wave import Tag
from tidemill.model.wave_steps import WAVE
from tidemill.ports.catalog import CatalogReader

Row = dict[str, Any]
Find = Callable[[str, str], list[Row]]
"""The rows of a channel for which a condition holds."""


class Relation(StrEnum):
    BEFORE = "derives from"
    SAME = "is"
    MADE = "was made into"


@dataclass(frozen=True, slots=True)
class Relative:
    """A row that belongs to the same wave, above or below an event."""

    relation: Relation  # of the event to this row
    channel: str
    tag: Tag
    row: Row
    schema: Schema  # of the row


@dataclass(frozen=True, slots=True)
class Lineage:
    """An event, and all that is on its way from outside and on from there; by tag, so that a way reads downwards."""

    channel: str
    tag: Tag
    relatives: tuple[Relative, ...]


def lineage(catalog: CatalogReader, find: Find, channel: str, text: str) -> Lineage:
    tag = Tag.parse(text)
    asked = catalog.channel(channel)
    if _tagged(asked.channel) is None:
        raise BadInput(f"events of channel {channel!r} have no tags: it has no column {WAVE!r}; ask of one that has")
    known = (c.channel for c in catalog.channels() if c.workflow == asked.workflow)
    tagged = {c.name: schema for c in known if (schema := _tagged(c)) is not None}
    found = tuple(sorted(_relatives(find, tagged, tag), key=lambda r: (len(r.tag.path), r.tag, r.channel)))
    if not any(r.relation is Relation.SAME and r.channel == channel for r in found):
        raise NotFound(f"channel {channel!r} has no event {text!r}; its tags are in the column {WAVE!r}")
    return Lineage(channel, tag, found)


def _tagged(channel: Channel) -> Schema | None:
    """The columns of a channel whose events have tags, for all to see."""
    seen = channel.role is not Role.STATE and channel.schema is not None and WAVE in channel.schema
    return channel.schema if seen else None


def _relatives(find: Find, channels: Mapping[str, Schema], tag: Tag) -> Iterator[Relative]:
    above = ", ".join(f"'{t}'" for t in (*tag.lineage(), tag))
    for channel, schema in channels.items():
        for row in find(channel, f"{WAVE} IN ({above}) OR startswith({WAVE}, '{tag}.')"):
            found = Tag.parse(row[WAVE])
            yield Relative(_relation(tag, found), channel, found, row, schema)


def _relation(tag: Tag, other: Tag) -> Relation:
    if tag == other:
        return Relation.SAME
    return Relation.BEFORE if tag.derives_from(other) else Relation.MADE
