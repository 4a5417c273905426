"""Random input channels, and what arrives on them: rows early and late, updates, deletions, new bases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tests.oracle.queries.columns import VALUES, Column, Columns, Type

from tidemill.algebra import reference
from tidemill.model.block import Kind
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
    kind: Kind = Kind.DELTA


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
KINDS: tuple[Updates, ...] = (Signed(), Append(), Upsert(("id",)))
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
    return insert.rows if insert.kind is Kind.BASE else reference.merge(updates, content, insert.rows)


@st.composite
def channels(draw: st.DrawFn) -> dict[str, tuple[Updates, Columns]]:
    """Two or three channels of different kinds with a column `k` of one type to join on."""
    shared = draw(st.sampled_from(KEY_TYPES))
    kinds = draw(st.permutations(KINDS))[: draw(st.integers(2, 3))]
    return {name: (kind, draw(_columns(shared, kind))) for name, kind in zip("tuv", kinds, strict=False)}


@st.composite
def _columns(draw: st.DrawFn, shared: Type, updates: Updates) -> Columns:
    others = draw(st.lists(st.sampled_from(list(Type)), min_size=2, max_size=5, unique=True))
    key = (Column("id", Type.INT),) if updates.key else ()
    return (*key, Column("k", shared), *(Column(NAMES[t], t) for t in others))


def inputs_of(found: Mapping[str, tuple[Updates, Columns]]) -> list[Input]:
    return [Input(n, ", ".join(f"{c.name} {c.type}" for c in cs), u) for n, (u, cs) in found.items()]


@st.composite
def histories(draw: st.DrawFn, found: Mapping[str, tuple[Updates, Columns]], most: int) -> list[list[Insert]]:
    """At least a first filling of every channel; then steps that touch some of them."""
    held: dict[str, Rows] = {name: [] for name in found}
    steps: list[list[Insert]] = []
    for number in range(draw(st.integers(2, most))):
        step: list[Insert] = []
        for name, (updates, columns) in found.items():
            if number == 0 or draw(st.integers(0, 2)):
                step.append(Insert(name, *draw(_arrivals(updates, columns, held[name]))))
                held[name] = after(updates, held[name], step[-1])
        steps.append(step)
    return steps


@st.composite
def _arrivals(draw: st.DrawFn, updates: Updates, columns: Columns, content: Rows) -> tuple[Rows, Kind]:
    rows = draw(_rows(updates, columns))
    if draw(st.integers(0, 11)) == 11:  # an append channel can only be given more than it has
        return (content + rows if isinstance(updates, Append) else rows), Kind.BASE
    match updates:
        case Signed():
            return [*_counted(draw, rows), *_gone(draw, columns, content)], Kind.DELTA
        case Upsert():
            return _unique(updates, [*_moved(draw, columns, content), *_marked(draw, rows)]), Kind.DELTA
        case _:
            return rows, Kind.DELTA


def _rows(updates: Updates, columns: Columns) -> st.SearchStrategy[Rows]:
    cells = st.tuples(*(st.sampled_from(VALUES[c.type]) for c in columns))
    row = cells.map(lambda values: dict(zip([c.name for c in columns], values, strict=True)))
    return st.lists(row, max_size=6).map(lambda rows: _unique(updates, rows))


def _unique(updates: Updates, rows: Rows) -> Rows:
    """The last row of each key, where there is a key."""
    return list({tuple(r[k] for k in updates.key): r for r in rows}.values()) if updates.key else rows


def _counted(draw: st.DrawFn, rows: Rows) -> Iterator[dict[str, Any]]:
    """Insertions, some of them taken back in the same delta."""
    for row in rows:
        many = draw(st.sampled_from((1, 1, 1, 2, 3)))
        yield row | {COUNT: many}
        if draw(st.integers(0, 7)) == 7:
            yield row | {COUNT: -many}


def _gone(draw: st.DrawFn, columns: Columns, content: Rows) -> Iterator[dict[str, Any]]:
    """Deletions of rows that are there, some of them updates: another row comes in the old one's place."""
    for row in _picked(draw, content):
        yield row | {COUNT: -1}
        if draw(st.booleans()):
            yield _changed(draw, columns, row) | {COUNT: 1}


def _moved(draw: st.DrawFn, columns: Columns, content: Rows) -> Iterator[dict[str, Any]]:
    """Updates and deletions of keys that are there."""
    for row in _picked(draw, content):
        yield _changed(draw, columns, row) | {"id": row["id"], DELETED: draw(st.sampled_from((None, False, True)))}


def _marked(draw: st.DrawFn, rows: Rows) -> Iterator[dict[str, Any]]:
    """New rows; now and then a deletion of a key that may not be there."""
    for row in rows:
        yield row | {DELETED: draw(st.sampled_from((None, None, None, False, True)))}


def _picked(draw: st.DrawFn, content: Rows) -> Rows:
    places = draw(st.lists(st.integers(0, len(content) - 1), unique=True, max_size=4)) if content else []
    return [content[i] for i in places]


def _changed(draw: st.DrawFn, columns: Columns, row: dict[str, Any]) -> dict[str, Any]:
    column = draw(st.sampled_from(columns))
    return row | {column.name: draw(st.sampled_from(VALUES[column.type]))}
