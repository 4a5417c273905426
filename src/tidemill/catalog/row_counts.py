"""Row counts of channel contents, where the catalog can derive them without reading data."""

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
    """The number of rows at the head of each active channel, where it is known.

    A base has as many rows as its files, and appended rows are added to them. The effect of upserts, signed rows and
    other deltas is known once they are merged into the next base.
    """
    bases = select(blocks.c.channel_id, func.max(blocks.c.seq).label("seq")).join_from(blocks, channels)
    bases = bases.where(IS_BASE, _IS_FILLED, blocks.c.seq <= channels.c.head_seq)
    newest = bases.group_by(blocks.c.channel_id).subquery()
    columns = (blocks.c.channel_id, blocks.c.seq, blocks.c.since, blocks.c.kind, blocks.c.updates, blocks.c.rows)
    since_base = and_(blocks.c.channel_id == newest.c.channel_id, blocks.c.seq >= newest.c.seq)
    query = select(*columns, channels.c.name, channels.c.head_seq, newest.c.seq.label("base"))
    query = query.join_from(blocks, channels).join(newest, since_base).where(channels.c.active)
    query = query.where(_IS_FILLED, blocks.c.seq <= channels.c.head_seq).order_by(blocks.c.channel_id, blocks.c.seq)
    rows_by_channel: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for row in connection.execute(query):
        rows_by_channel[row.name, row.head_seq].append(row)
    counts = {name: _count_by_seq(rows).get(head) for (name, head), rows in rows_by_channel.items()}
    return {name: count for name, count in counts.items() if count is not None}


def _count_by_seq(rows: Iterable[Any]) -> dict[int, int]:
    """Row counts by sequence number. Compacted deltas and the deltas that they replace lead to the same counts."""
    counts: dict[int, int] = {}
    for row in rows:
        if row.kind == BlockKind.BASE and row.seq == row.base:
            counts[row.seq] = row.rows
        elif row.since in counts and (isinstance(row.updates, Append) or not row.rows):
            counts.setdefault(row.seq, counts[row.since] + row.rows)
    return counts
