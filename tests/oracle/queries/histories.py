"""Random input channels and their inserts: new rows, updates, deletions and new bases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.oracle.queries.columns import VALUES, Column, Columns, Type

from tidemill.algebra import reference
from tidemill.model.block import BlockKind
from tidemill.model.change import COUNT, DELETED, Append, Rows, Signed, Updates, Upsert


@dataclass(frozen=True, slots=True)
class Input:
    """An input channel."""

    name: str
    schema: str
    updates: Updates = Append()


@dataclass(frozen=True, slots=True)
class Insert:
    """Rows that arrive on a channel in one block."""

    channel: str
    rows: Rows
    kind: BlockKind = BlockKind.DELTA


Step = Sequence[Insert]
Contents = Mapping[str, Rows]

NAMES = {
    Type.INT: "i",
    Type.BIGINT: "n",
    Type.DOUBLE: "f",
    Type.DECIMAL: "d",
    Type.STRING: "s",
    Type.BOOLEAN: "p",
    Type.DATE: "day",
    Type.TIMESTAMP: "at",
    Type.STRUCT: "o",
    Type.ARRAY: "a",
    Type.BINARY: "z",
}
KINDS: tuple[Updates, ...] = (Signed(), Append(), Upsert(("id",)), Upsert(("k",)))
KEY_TYPES = (Type.INT, Type.STRING, Type.DATE, Type.DOUBLE)


def contents(inputs: Sequence[Input], history: Sequence[Step]) -> Iterator[Contents]:
    """The content of each channel after each step."""
    updates = {i.name: i.updates for i in inputs}
    channel_contents: dict[str, Rows] = {i.name: [] for i in inputs}
    for step in history:
        for insert in step:
            channel_contents[insert.channel] = apply_insert(
                updates[insert.channel], channel_contents[insert.channel], insert
            )
        yield dict(channel_contents)


def apply_insert(updates: Updates, content: Rows, insert: Insert) -> Rows:
    return insert.rows if insert.kind is BlockKind.BASE else reference.merge_rows(updates, content, insert.rows)


def channels(random: Random) -> dict[str, tuple[Updates, Columns]]:
    """Two or three channels of different kinds with a column `k` of one type to join on."""
    shared = random.choice(KEY_TYPES)
    kinds = random.sample(KINDS, random.randint(2, 3))
    return {name: (kind, _columns(random, shared, kind)) for name, kind in zip("tuv", kinds, strict=False)}


def _columns(random: Random, shared: Type, updates: Updates) -> Columns:
    others = random.sample(list(Type), random.randint(2, 5))
    key = (Column("id", Type.INT),) if "id" in updates.key else ()
    return (*key, Column("k", shared), *(Column(NAMES[t], t) for t in others))


def build_inputs(channels_by_name: Mapping[str, tuple[Updates, Columns]]) -> list[Input]:
    return [Input(n, ", ".join(f"{c.name} {c.type}" for c in cs), u) for n, (u, cs) in channels_by_name.items()]


def histories(
    random: Random, channels_by_name: Mapping[str, tuple[Updates, Columns]], steps: int
) -> list[list[Insert]]:
    """A first insert into every channel, then steps that insert into some of them."""
    channel_contents: dict[str, Rows] = {name: [] for name in channels_by_name}
    history: list[list[Insert]] = []
    for number in range(steps):
        step: list[Insert] = []
        for name, (updates, columns) in channels_by_name.items():
            if number == 0 or random.random() < 0.6:
                step.append(Insert(name, *_draw_insert(random, updates, columns, channel_contents[name])))
                channel_contents[name] = apply_insert(updates, channel_contents[name], step[-1])
        history.append(step)
    return history


def _draw_insert(random: Random, updates: Updates, columns: Columns, content: Rows) -> tuple[Rows, BlockKind]:
    rows = _draw_rows(random, updates, columns)
    if random.random() < 0.06:  # a new base of an append channel contains the old rows
        return (content + rows if isinstance(updates, Append) else rows), BlockKind.BASE
    match updates:
        case Signed():
            return [
                *_draw_insertions(random, rows),
                *_draw_deletions(random, columns, _pick_rows(random, content)),
            ], BlockKind.DELTA
        case Upsert():
            upserts = _draw_upserts(random, updates, columns, _pick_rows(random, content))
            return _keep_last_per_key(updates, [*upserts, *_mark_rows(random, rows)]), BlockKind.DELTA
        case _:
            return rows, BlockKind.DELTA


def _draw_rows(random: Random, updates: Updates, columns: Columns) -> Rows:
    """A few rows; sometimes many, nearly all with one key."""
    rows = [{c.name: random.choice(VALUES[c.type]) for c in columns} for _ in range(random.randint(0, 6))]
    if rows and random.random() < 0.12:
        rows = [{**r, "k": rows[0]["k"]} for r in rows * random.randint(2, 8)] + rows
    return _keep_last_per_key(updates, rows)


def _keep_last_per_key(updates: Updates, rows: Rows) -> Rows:
    """The last row of each key, if there is a key."""
    return list({tuple(r[k] for k in updates.key): r for r in rows}.values()) if updates.key else rows


def _draw_insertions(random: Random, rows: Rows) -> Iterator[dict[str, Any]]:
    """Insertions, some of them reverted in the same delta."""
    for row in rows:
        count = random.choice((1, 1, 1, 2, 3))
        yield row | {COUNT: count}
        if random.random() < 0.12:
            yield row | {COUNT: -count}


def _draw_deletions(random: Random, columns: Columns, picked: Rows) -> Iterator[dict[str, Any]]:
    """Deletions of existing rows; some are updates, in which another row replaces the old one."""
    updated = random.choice((0, 0.5, 0.5))
    for row in picked:
        yield row | {COUNT: -1}
        if random.random() < updated:
            yield _change_row(random, columns, row) | {COUNT: 1}


def _draw_upserts(random: Random, updates: Updates, columns: Columns, picked: Rows) -> Iterator[dict[str, Any]]:
    """Updates and deletions of existing keys, or only deletions."""
    deletion_marks = random.choice(((True,), (None, False, True), (None, False, True)))
    for row in picked:
        key = {k: row[k] for k in updates.key}
        yield _change_row(random, columns, row) | key | {DELETED: random.choice(deletion_marks)}


def _mark_rows(random: Random, rows: Rows) -> Iterator[dict[str, Any]]:
    """New rows; sometimes a deletion of a key that may not exist."""
    for row in rows:
        yield row | {DELETED: random.choice((None, None, None, False, True))}


def _pick_rows(random: Random, content: Rows) -> Rows:
    """Some existing rows: single ones, all of one key, or all."""
    if not content:
        return []
    match random.randint(0, 9):
        case 6 | 7 | 8:
            key = reference.to_hashable(random.choice(content)["k"])
            return [r for r in content if reference.to_hashable(r["k"]) == key]
        case 9:
            return content
    return random.sample(content, random.randint(0, min(4, len(content))))


def _change_row(random: Random, columns: Columns, row: dict[str, Any]) -> dict[str, Any]:
    """The row with another random value in one column, which may be its key."""
    column = random.choice(columns)
    return row | {column.name: random.choice(VALUES[column.type])}
