"""Random channel histories, with the content at every position in plain Python."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tidemill.algebra import reference
from tidemill.model.block import (
    INITIAL_POSITION,
    Block,
    BlockKind,
    BlockOrigin,
    ChannelPosition,
    DataFile,
    advance_position,
    link_block,
)
from tidemill.model.change import (
    COUNT,
    DELETED,
    PATCH,
    Append,
    Custom,
    Increment,
    Patch,
    Rows,
    Signed,
    Updates,
    Upsert,
)
from tidemill.model.schema import Schema

CONTENT = Schema.from_ddl(
    "k int, s string, f double, d decimal(10, 2), t timestamp, day date, b binary, a array<int>, "
    "o struct<x: int, y: string>"
)
PLAIN = CONTENT.select_fields(n for n in CONTENT.names if n not in ("a", "o"))
TOTALS = Schema.from_ddl("k int, name string, n bigint, amount decimal(12, 2)")


def top_merge(base: Rows, delta: Rows) -> Rows:
    """A user's merge: per key the rows of the newest block, oldest row first; an empty tag deletes them."""
    rows = top_chain(base, delta)
    return [r for r in rows if r["tag"] != ""]


def top_chain(first: Rows, second: Rows) -> Rows:
    return second or first


def top_diff(before: Rows, after: Rows) -> Rows:
    if reference.is_same_bag(before, after):
        return []
    return after or [{"k": before[0]["k"], "tag": "", "score": None}]


TAGS = Schema.from_ddl("k int, tag string, score bigint")
CUSTOM = Custom(("k",), top_merge, top_chain, top_diff)

KINDS: dict[str, tuple[Updates, Schema]] = {
    "append": (Append(), CONTENT),
    "signed": (Signed(), CONTENT),
    "upsert": (Upsert(("k", "s")), CONTENT),
    "increment": (Increment(("k", "name"), ("n", "amount")), TOTALS),
    "patch": (Patch(("k", "s"), ("k",), ("f", "o")), CONTENT),
    "custom": (CUSTOM, TAGS),
}

UTC = dt.UTC
nullable = st.none
keys = st.one_of(nullable(), st.integers(0, 3))
words = st.one_of(nullable(), st.sampled_from(["", "a", "b", "é\n\"'`"]))
values: dict[str, st.SearchStrategy[Any]] = {
    "k": keys,
    "s": words,
    "name": words,
    "tag": st.sampled_from(["a", "b", "c"]),
    "f": st.one_of(nullable(), st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf, -1e300])),
    "d": st.one_of(nullable(), st.decimals(-999, 999, places=2)),
    "t": st.one_of(nullable(), st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2100, 1, 1), timezones=st.just(UTC))),
    "day": st.one_of(nullable(), st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))),
    "b": st.one_of(nullable(), st.binary(max_size=2)),
    "a": st.one_of(nullable(), st.lists(st.one_of(nullable(), st.integers(0, 2)), max_size=2)),
    "o": st.one_of(nullable(), st.fixed_dictionaries({"x": st.one_of(nullable(), st.integers(0, 1)), "y": words})),
    "n": st.integers(-5, 5),
    "amount": st.decimals(-99, 99, places=2).map(lambda d: d + Decimal("0.00")),
    "score": st.one_of(nullable(), st.integers(0, 9)),
}


def rows_of(schema: Schema, most: int = 4) -> st.SearchStrategy[Rows]:
    return st.lists(st.fixed_dictionaries({f.name: values[f.name] for f in schema}), max_size=most)


def one_per_key(updates: Updates, rows: Rows) -> Rows:
    return list({tuple(reference.to_hashable(r[k]) for k in updates.key): r for r in rows}.values())


@st.composite
def contents(draw: st.DrawFn, updates: Updates, schema: Schema) -> Rows:
    """A content that the kind allows."""
    rows = draw(rows_of(schema))
    return one_per_key(updates, rows) if isinstance(updates, Upsert | Increment | Patch) else rows


@st.composite
def deltas(draw: st.DrawFn, updates: Updates, schema: Schema, content: Rows) -> Rows:
    """A delta that the kind allows on `content`."""
    rows = draw(contents(updates, schema))
    match updates:
        case Append():
            return rows
        case Custom():
            deleted_keys = draw(st.lists(keys, max_size=2))
            touched = {r["k"] for r in rows}
            return rows + [{"k": k, "tag": "", "score": None} for k in dict.fromkeys(deleted_keys) if k not in touched]
        case Signed():
            deleted = draw(st.lists(st.sampled_from(range(len(content))), unique=True, max_size=3)) if content else []
            added = [r | {COUNT: draw(st.integers(1, 2))} for r in rows]
            return added + [content[i] | {COUNT: -1} for i in deleted]
        case Upsert():
            return [r | {DELETED: draw(st.sampled_from([None, False, True]))} for r in rows]
        case Increment():
            return [_amounts(draw, updates, r) for r in rows]
        case Patch():
            upserts = [r | {DELETED: draw(st.sampled_from([None, False, True])), PATCH: False} for r in rows]
            return upserts + draw(_patches(updates, schema))


@st.composite
def _patches(draw: st.DrawFn, updates: Patch, schema: Schema) -> Rows:
    """At most one patch for each value of the patch key."""
    drawn = {r["k"]: r for r in draw(rows_of(schema, most=2))}.values()
    set_columns = {*updates.by, *updates.columns}
    blank = [{c: v if c in set_columns else None for c, v in r.items()} for r in drawn]
    setting = [r | {DELETED: False, PATCH: True} for r in blank]
    return [r | dict.fromkeys(updates.columns) | {DELETED: True} if draw(st.booleans()) else r for r in setting]


def _amounts(draw: st.DrawFn, updates: Increment, row: dict[str, Any]) -> dict[str, Any]:
    is_deleted = draw(st.sampled_from([None, False, True]))
    if is_deleted and draw(st.booleans()):
        return row | dict.fromkeys(updates.columns) | {DELETED: True}
    return row | {DELETED: is_deleted}


@dataclass(frozen=True)
class History:
    """Blocks of one channel, and its content at each readable position."""

    updates: Updates
    schema: Schema
    blocks: tuple[Block, ...]
    data: dict[int, Rows]  # rows of each block, by block id
    content: dict[int, Rows]  # by sequence number
    chained: dict[tuple[int, int], Rows]  # the reference's chain between two positions, if deltas connect them

    @property
    def points(self) -> list[int]:
        return sorted(self.content)


Write = Callable[[int, Rows, Schema], tuple[DataFile, ...]]


@st.composite
def histories(
    draw: st.DrawFn, updates: Updates, schema: Schema, most: int = 5
) -> tuple[Updates, Schema, list[tuple[str, Rows]]]:
    """Steps: deltas, replacing bases, cancelled blocks, and compactions of the current position."""
    steps: list[tuple[str, Rows]] = []
    content: Rows = []
    for _ in range(draw(st.integers(1, most))):
        what = draw(st.sampled_from(["delta", "delta", "delta", "base", "cancelled", "compaction"]))
        rows: Rows = []
        if what == "delta":
            rows = draw(deltas(updates, schema, content))
            content = reference.merge_rows(updates, content, rows)
        elif what == "base":
            rows = draw(contents(updates, schema))
            if isinstance(updates, Append):
                rows = content + rows
            content = rows
        steps.append((what, rows))
    return updates, schema, steps


def replay(updates: Updates, schema: Schema, steps: list[tuple[str, Rows]], write: Write) -> History:
    """Turn the steps into blocks, as commits would, and record the expected content of each position."""
    first = Block(0, "c", 0, BlockKind.BASE, schema, origin=BlockOrigin.FIRST)
    blocks, data, content = [first], {0: []}, {0: []}
    position: ChannelPosition = INITIAL_POSITION
    for number, (what, rows) in enumerate(steps, start=1):
        if what == "cancelled":
            continue
        if what == "compaction":
            expected = content[position.seq]
            if not any(b.kind is BlockKind.BASE and b.seq == position.seq for b in blocks):
                blocks.append(
                    Block(number, "c", position.seq, BlockKind.BASE, schema, files=write(number, expected, schema))
                )
                data[number] = expected
            continue
        kind = BlockKind.DELTA if what == "delta" else BlockKind.BASE
        physical = updates.build_delta_schema(schema) if kind is BlockKind.DELTA else schema
        files = write(number, rows, physical)
        block = link_block(position, Block(number, "c", number, kind, schema, updates=updates, files=files))
        before = content[position.seq]
        position = advance_position(position, block)
        content[number] = reference.merge_rows(updates, before, rows) if kind is BlockKind.DELTA else rows
        blocks.append(block)
        data[number] = rows
    return History(updates, schema, tuple(blocks), data, content, _chains(updates, blocks, data))


def _chains(updates: Updates, blocks: list[Block], data: dict[int, Rows]) -> dict[tuple[int, int], Rows]:
    chains: dict[tuple[int, int], Rows] = {}
    links = {b.since: b for b in blocks if b.kind is BlockKind.DELTA and b.since is not None}
    for start in {b.seq for b in blocks}:
        seq, rows = start, None
        while seq in links:
            block = links[seq]
            rows = data[block.id] if rows is None else reference.chain_deltas(updates, rows, data[block.id])
            chains[start, block.seq] = rows
            seq = block.seq
    return chains
