"""Random input channels, and what arrives on them: rows early and late, updates, deletions, new bases."""

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
    """What each channel holds after each step."""
    updates = {i.name: i.updates for i in inputs}
    held: dict[str, Rows] = {i.name: [] for i in inputs}
    for step in history:
        for insert in step:
            held[insert.channel] = after(updates[insert.channel], held[insert.channel], insert)
        yield dict(held)


def after(updates: Updates, content: Rows, insert: Insert) -> Rows:
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


def inputs_of(found: Mapping[str, tuple[Updates, Columns]]) -> list[Input]:
    return [Input(n, ", ".join(f"{c.name} {c.type}" for c in cs), u) for n, (u, cs) in found.items()]


def histories(random: Random, found: Mapping[str, tuple[Updates, Columns]], steps: int) -> list[list[Insert]]:
    """At least a first filling of every channel; then steps that touch some of them."""
    held: dict[str, Rows] = {name: [] for name in found}
    history: list[list[Insert]] = []
    for number in range(steps):
        step: list[Insert] = []
        for name, (updates, columns) in found.items():
            if number == 0 or random.random() < 0.6:
                step.append(Insert(name, *_arrivals(random, updates, columns, held[name])))
                held[name] = after(updates, held[name], step[-1])
        history.append(step)
    return history


def _arrivals(random: Random, updates: Updates, columns: Columns, content: Rows) -> tuple[Rows, BlockKind]:
    rows = _rows(random, updates, columns)
    if random.random() < 0.06:  # an append channel can only be given more than it has
        return (content + rows if isinstance(updates, Append) else rows), BlockKind.BASE
    match updates:
        case Signed():
            return [*_counted(random, rows), *_gone(random, columns, _picked(random, content))], BlockKind.DELTA
        case Upsert():
            moved = _moved(random, updates, columns, _picked(random, content))
            return _unique(updates, [*moved, *_marked(random, rows)]), BlockKind.DELTA
        case _:
            return rows, BlockKind.DELTA


def _rows(random: Random, updates: Updates, columns: Columns) -> Rows:
    """A few rows; now and then many, nearly all of one key."""
    rows = [{c.name: random.choice(VALUES[c.type]) for c in columns} for _ in range(random.randint(0, 6))]
    if rows and random.random() < 0.12:
        rows = [{**r, "k": rows[0]["k"]} for r in rows * random.randint(2, 8)] + rows
    return _unique(updates, rows)


def _unique(updates: Updates, rows: Rows) -> Rows:
    """The last row of each key, where there is a key."""
    return list({tuple(r[k] for k in updates.key): r for r in rows}.values()) if updates.key else rows


def _counted(random: Random, rows: Rows) -> Iterator[dict[str, Any]]:
    """Insertions, some of them taken back in the same delta."""
    for row in rows:
        many = random.choice((1, 1, 1, 2, 3))
        yield row | {COUNT: many}
        if random.random() < 0.12:
            yield row | {COUNT: -many}


def _gone(random: Random, columns: Columns, picked: Rows) -> Iterator[dict[str, Any]]:
    """Deletions of rows that are there, all or some of them updates: another row comes in the old one's place."""
    updated = random.choice((0, 0.5, 0.5))
    for row in picked:
        yield row | {COUNT: -1}
        if random.random() < updated:
            yield _changed(random, columns, row) | {COUNT: 1}


def _moved(random: Random, updates: Updates, columns: Columns, picked: Rows) -> Iterator[dict[str, Any]]:
    """Updates and deletions of keys that are there, or deletions alone."""
    gone = random.choice(((True,), (None, False, True), (None, False, True)))
    for row in picked:
        key = {k: row[k] for k in updates.key}
        yield _changed(random, columns, row) | key | {DELETED: random.choice(gone)}


def _marked(random: Random, rows: Rows) -> Iterator[dict[str, Any]]:
    """New rows; now and then a deletion of a key that may not be there."""
    for row in rows:
        yield row | {DELETED: random.choice((None, None, None, False, True))}


def _picked(random: Random, content: Rows) -> Rows:
    """Some rows that are there: single ones, all of one key, or all there are."""
    if not content:
        return []
    match random.randint(0, 9):
        case 6 | 7 | 8:
            key = reference.to_hashable(random.choice(content)["k"])
            return [r for r in content if reference.to_hashable(r["k"]) == key]
        case 9:
            return content
    return random.sample(content, random.randint(0, min(4, len(content))))


def _changed(random: Random, columns: Columns, row: dict[str, Any]) -> dict[str, Any]:
    """The row with another value, or perhaps the same, in one column: its key, say, which moves it elsewhere."""
    column = random.choice(columns)
    return row | {column.name: random.choice(VALUES[column.type])}
