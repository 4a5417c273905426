"""How many rows the contents of channels have, as far as the catalog knows it without reading them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, and_, func, select

from tidemill.catalog.tables import IS_BASE, blocks, channels
from tidemill.model.block import BlockKind, BlockState
from tidemill.model.change import Append

_IS_FILLED = blocks.c.state == BlockState.FILLED


def count_content_rows(connection: Connection) -> dict[str, int]:
    """The rows of the content at the head of each channel in use, where they are known.

    A base has as many as its files, and appended rows are added to them. What upserts, signed rows and other deltas
    make of a base is known once they are merged into the next base.
    """
    bases = select(blocks.c.channel_id, func.max(blocks.c.seq).label("seq")).join_from(blocks, channels)
    bases = bases.where(IS_BASE, _IS_FILLED, blocks.c.seq <= channels.c.head_seq)
    newest = bases.group_by(blocks.c.channel_id).subquery()
    wanted = (blocks.c.channel_id, blocks.c.seq, blocks.c.since, blocks.c.kind, blocks.c.updates, blocks.c.rows)
    since_base = and_(blocks.c.channel_id == newest.c.channel_id, blocks.c.seq >= newest.c.seq)
    query = select(*wanted, channels.c.name, channels.c.head_seq, newest.c.seq.label("base"))
    query = query.join_from(blocks, channels).join(newest, since_base).where(channels.c.active)
    query = query.where(_IS_FILLED, blocks.c.seq <= channels.c.head_seq).order_by(blocks.c.channel_id, blocks.c.seq)
    of_channel: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for row in connection.execute(query):
        of_channel[row.name, row.head_seq].append(row)
    found = {name: _count_by_seq(rows).get(head) for (name, head), rows in of_channel.items()}
    return {name: rows for name, rows in found.items() if rows is not None}


def _count_by_seq(rows: Iterable[Any]) -> dict[int, int]:
    """By sequence number, the rows of the content there. Folded deltas beside their parts lead to the same."""
    known: dict[int, int] = {}
    for row in rows:
        if row.kind == BlockKind.BASE and row.seq == row.base:
            known[row.seq] = row.rows
        elif row.since in known and (isinstance(row.updates, Append) or not row.rows):
            known.setdefault(row.seq, known[row.since] + row.rows)
    return known
