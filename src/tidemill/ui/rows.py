"""Columns that only pages have."""

from __future__ import annotations

from tidemill.display.formatting import format_age, format_count, format_utc, to_timestamp
from tidemill.display.table import Column, TableCell, link_flow
from tidemill.model.schema import Field
from tidemill.runtime.inspect.status import ChannelConsumer, ReflectedVersions

SCHEMA: tuple[Column[Field], ...] = (
    Column("column", lambda f, _: f.name),
    Column("type", lambda f, _: f.type),
    Column("nullable", lambda f, _: "yes" if f.nullable else "no"),
)

REFLECTED: tuple[Column[ReflectedVersions], ...] = (
    Column("pathway", lambda r, _: " › ".join(r.pathway)),
    Column(">versions", lambda r, _: len(r.versions)),
    Column("newest version", lambda r, _: format_utc(to_timestamp(r.latest_version))),
    Column("newest", lambda r, now: format_age(to_timestamp(r.latest_version), now)),
    Column("oldest", lambda r, now: format_age(to_timestamp(r.versions[0]), now)),
)


def _show_lag(consumer: ChannelConsumer) -> TableCell:
    if not consumer.behind:
        return TableCell("all read", tone="fresh")
    return TableCell(f"{format_count(consumer.behind)} unread", tone="waiting")


CONSUMER: tuple[Column[ChannelConsumer], ...] = (
    Column("flow", lambda c, _: link_flow(c.flow)),
    Column("task", lambda c, _: c.task),
    Column("reads", lambda c, _: c.modes),
    Column("lag", lambda c, _: _show_lag(c)),
)
