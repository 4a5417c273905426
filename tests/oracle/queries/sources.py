"""What stands after FROM: tables, derived tables, joins of two, and exploded arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.oracle.queries.columns import Column, Columns, Type
from tests.oracle.queries.expressions import condition
from tests.oracle.queries.pen import Pen, Query, exact, renamed

Inner = Callable[[Pen, int], Query]
"""Writes a query to read from, so many levels deep."""


@dataclass(frozen=True, slots=True)
class Source:
    text: str
    scope: Columns


def source(pen: Pen, inner: Inner, depth: int) -> Source:
    """One relation, or a join of two or three, the arrays of any perhaps exploded."""
    kind = pen.one(("relation", "relation", "join", "join", "using"))
    first = relation(pen, inner, depth)
    if kind == "join":
        first = joined(pen, first, relation(pen, inner, depth - 1))
    elif kind == "using":
        first = joined_using(pen, first, relation(pen, inner, 0))
        if pen.chance(25):
            first = joined_using(pen, first, relation(pen, inner, 0))
    return exploded(pen, first) if pen.chance(15) else first


def relation(pen: Pen, inner: Inner, depth: int) -> Source:
    alias = pen.alias()
    if depth > 0 and pen.chance(50):
        query = inner(pen.apart(), depth - 1)
        return Source(f"({query.text}) {alias}", _opened(renamed(query.columns, alias)))
    table = pen.one(sorted(pen.tables))
    return Source(f"{table} {alias}", _opened(renamed(pen.tables[table], alias)))


def _opened(columns: Columns) -> Columns:
    """The columns, and the fields of structs among them."""
    return (*columns, *(f for c in columns for f in c.fields))


def joined(pen: Pen, left: Source, right: Source) -> Source:
    how = pen.one(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"))
    scope = left.scope + right.scope
    pair = matched(pen, left.scope, right.scope)
    if pair is None or pen.chance(5):
        return Source(f"{left.text} CROSS JOIN {right.text}", scope)
    on = pair
    if pen.chance(30):
        on = f"{pair} AND {condition(pen, scope, depth=1)}"
    seen = left.scope if how in ("LEFT SEMI JOIN", "LEFT ANTI JOIN") else scope
    return Source(f"{left.text} {how} {right.text} ON {on}", seen)


def matched(pen: Pen, left: Columns, right: Columns) -> str | None:
    """An equality between the two sides, on the shared key where both have it; None if no types meet."""
    pairs = [(a, b) for a in exact(left) for b in exact(right) if a.type is b.type and a.within]
    keys = [(a, b) for a, b in pairs if a.name == b.name]
    if not pairs:
        return None
    a, b = pen.one(keys if keys and pen.chance(70) else pairs)
    return f"{a.text} {pen.one(('=', '=', '=', '<=>'))} {b.text}"


def joined_using(pen: Pen, left: Source, right: Source) -> Source:
    """The shared columns become one each, which no relation owns.

    Where the left side has two columns of the name Spark takes the first and DuckDB refuses: such a name is not used.
    """
    theirs = {c.name: c for c in exact(right.scope) if not c.is_field}
    names = Counter(c.name for c in left.scope if not c.is_field)
    mine = [c for c in exact(left.scope) if not c.is_field and names[c.name] == 1]
    shared = [c for c in mine if c.name in theirs and theirs[c.name].type is c.type]
    if not shared:
        return joined(pen, left, right)
    merged_before = [c for c in shared if not c.within]
    key = pen.one(merged_before or shared)
    how = pen.one(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    merged = Column(key.name, key.type)
    rest = tuple(c for c in left.scope + right.scope if c.name != key.name)
    return Source(f"{left.text} {how} {right.text} USING ({key.name})", (merged, *rest))


def exploded(pen: Pen, base: Source) -> Source:
    """One row per element of an array, as LATERAL VIEW has it."""
    arrays = exact(base.scope, Type.ARRAY)
    if not arrays:
        return base
    alias, element = pen.name("v"), pen.name("e")
    outer = "OUTER " if pen.chance(30) else ""
    view = f"LATERAL VIEW {outer}explode({pen.one(arrays).text}) {alias} AS {element}"
    return Source(f"{base.text} {view}", (*base.scope, replace(Column(element, Type.INT), within=alias)))
