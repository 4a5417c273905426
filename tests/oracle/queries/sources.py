"""The FROM clause: tables, derived tables, joins of two, and exploded arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.oracle.queries.columns import Column, Columns, Type
from tests.oracle.queries.expressions import condition
from tests.oracle.queries.writer import Query, QueryWriter, exact, qualify_columns

Inner = Callable[[QueryWriter, int], Query]
"""Writes a sub-query with at most this many levels."""


@dataclass(frozen=True, slots=True)
class Source:
    text: str
    scope: Columns


def source(writer: QueryWriter, inner: Inner, depth: int) -> Source:
    """One relation, or a join of two or three, sometimes with an exploded array."""
    kind = writer.one(("relation", "relation", "join", "join", "using"))
    first = relation(writer, inner, depth)
    if kind == "join":
        first = join_sources(writer, first, relation(writer, inner, depth - 1))
    elif kind == "using":
        first = join_using(writer, first, relation(writer, inner, 0))
        if writer.chance(25):
            first = join_using(writer, first, relation(writer, inner, 0))
    return explode_array(writer, first) if writer.chance(15) else first


def relation(writer: QueryWriter, inner: Inner, depth: int) -> Source:
    alias = writer.alias()
    if depth > 0 and writer.chance(50):
        query = inner(writer.apart(), depth - 1)
        return Source(f"({query.text}) {alias}", _add_fields(qualify_columns(query.columns, alias)))
    table = writer.one(sorted(writer.tables))
    return Source(f"{table} {alias}", _add_fields(qualify_columns(writer.tables[table], alias)))


def _add_fields(columns: Columns) -> Columns:
    """The columns and the fields of their structs."""
    return (*columns, *(f for c in columns for f in c.fields))


def join_sources(writer: QueryWriter, left: Source, right: Source) -> Source:
    join_type = writer.one(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"))
    scope = left.scope + right.scope
    pair = match_keys(writer, left.scope, right.scope)
    if pair is None or writer.chance(5):
        return Source(f"{left.text} CROSS JOIN {right.text}", scope)
    on = pair
    if writer.chance(30):
        on = f"{pair} AND {condition(writer, scope, depth=1)}"
    visible = left.scope if join_type in ("LEFT SEMI JOIN", "LEFT ANTI JOIN") else scope
    return Source(f"{left.text} {join_type} {right.text} ON {on}", visible)


def match_keys(writer: QueryWriter, left: Columns, right: Columns) -> str | None:
    """An equality between the two sides, on the shared key if both have it; None if no types match."""
    pairs = [(a, b) for a in exact(left) for b in exact(right) if a.type is b.type and a.within]
    keys = [(a, b) for a, b in pairs if a.name == b.name]
    if not pairs:
        return None
    a, b = writer.one(keys if keys and writer.chance(70) else pairs)
    return f"{a.text} {writer.one(('=', '=', '=', '<=>'))} {b.text}"


def join_using(writer: QueryWriter, left: Source, right: Source) -> Source:
    """Join by USING: each shared column becomes one column without a relation.

    If the left side has two columns of the name, Spark takes the first and DuckDB fails: such names are not used.
    """
    theirs = {c.name: c for c in exact(right.scope) if not c.is_field}
    names = Counter(c.name for c in left.scope if not c.is_field)
    mine = [c for c in exact(left.scope) if not c.is_field and names[c.name] == 1]
    shared = [c for c in mine if c.name in theirs and theirs[c.name].type is c.type]
    if not shared:
        return join_sources(writer, left, right)
    merged_before = [c for c in shared if not c.within]
    key = writer.one(merged_before or shared)
    join_type = writer.one(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    merged = Column(key.name, key.type)
    rest = tuple(c for c in left.scope + right.scope if c.name != key.name)
    return Source(f"{left.text} {join_type} {right.text} USING ({key.name})", (merged, *rest))


def explode_array(writer: QueryWriter, base: Source) -> Source:
    """One row per element of an array, by LATERAL VIEW."""
    arrays = exact(base.scope, Type.ARRAY)
    if not arrays:
        return base
    alias, element = writer.name("v"), writer.name("e")
    outer = "OUTER " if writer.chance(30) else ""
    view = f"LATERAL VIEW {outer}explode({writer.one(arrays).text}) {alias} AS {element}"
    return Source(f"{base.text} {view}", (*base.scope, replace(Column(element, Type.INT), within=alias)))
