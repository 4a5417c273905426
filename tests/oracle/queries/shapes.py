"""The shapes of a query, each of which may read the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.oracle.queries import subqueries
from tests.oracle.queries.aggregates import aggregate, having
from tests.oracle.queries.columns import SCALARS, Column, Columns, Type
from tests.oracle.queries.expressions import INEXACT, apt, expression, filled, form
from tests.oracle.queries.pen import Pen, Query, exact, renamed
from tests.oracle.queries.sources import Source, source
from tests.oracle.queries.subqueries import membership, restriction, scalar

Shape = Callable[[Pen, int], Query]
Item = tuple[str, Column]
"""An expression, and the column that it becomes."""


def query(pen: Pen, depth: int) -> Query:
    """Any query: the shape is drawn, and what it reads is at most `depth` queries deep."""
    return pen.one(SHAPES)(pen, depth)


def plain(pen: Pen, depth: int) -> Query:
    read = source(pen, query, depth)
    items = _carried(pen, read.scope) + [_computed(pen, read.scope) for _ in range(pen.one((0, 1, 2)))]
    if pen.chance(15):
        items.append((scalar(pen, read.scope, query, depth), Column(pen.name("c"), Type.BIGINT)))
    if pen.chance(5):
        tested = membership(pen, read.scope, query, depth)
        items.append((f"CASE WHEN {tested} THEN 1 ELSE 0 END", Column(pen.name("c"), Type.INT)))
    return _select(items, f"{read.text}{_where(pen, read, depth)}")


def whole(pen: Pen, depth: int) -> Query:
    """All columns of one table, some of its rows."""
    table = pen.one(sorted(pen.tables))
    alias = pen.alias()
    read = Source(f"{table} {alias}", tuple(replace(c, within=alias) for c in pen.tables[table]))
    return Query(f"SELECT * FROM {read.text}{_where(pen, read, depth)}", pen.tables[table])


def distinct(pen: Pen, depth: int) -> Query:
    read = source(pen, query, depth)
    items = _keys(pen, read.scope, least=1)
    return _select(items, f"{read.text}{_where(pen, read, depth)}", "SELECT DISTINCT")


def grouped(pen: Pen, depth: int) -> Query:
    read = source(pen, query, depth)
    keys = _keys(pen, read.scope, least=0)
    items = keys + [_aggregated(pen, read.scope) for _ in range(pen.one((1, 2, 3)))]
    by = _grouping(pen, [text for text, _ in keys])
    kept = _having(pen, read.scope, tuple(_seen(keys)), by, depth)
    return _select(items, f"{read.text}{_where(pen, read, depth)}{by}{kept}")


def combined(pen: Pen, depth: int) -> Query:
    """Two selects of the same types as one bag or set."""
    operator = pen.one(("UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"))
    first = _first_branch(pen, depth)
    other = source(pen, query, depth - 1)
    types = [pen.one(WIDER.get(c.type, (c.type,))) if pen.chance(30) else c.type for c in first.columns]
    items = [(expression(pen, other.scope, t), c) for t, c in zip(types, first.columns, strict=True)]
    second = _select(items, f"{other.text}{_where(pen, other, depth - 1)}")
    columns = tuple(replace(c, type=_wider(c.type, t)) for c, t in zip(first.columns, types, strict=True))
    return Query(f"{first.text} {operator} {second.text}", columns)


WIDER = {
    Type.INT: (Type.BIGINT, Type.DOUBLE, Type.DECIMAL),
    Type.BIGINT: (Type.INT, Type.DOUBLE),
    Type.DECIMAL: (Type.INT, Type.DOUBLE),
    Type.DOUBLE: (Type.INT, Type.BIGINT, Type.DECIMAL),
}
"""With what numbers of a type may stand in one column of a set operation."""

_WIDTHS = (Type.INT, Type.BIGINT, Type.DECIMAL, Type.DOUBLE)


def _wider(one: Type, other: Type) -> Type:
    return one if one is other else max(one, other, key=_WIDTHS.index)


def windowed(pen: Pen, depth: int) -> Query:
    """Columns with places or running values among those of their partition, ordered by all of them."""
    read = source(pen, query, depth)
    items = _scalars(pen, read.scope)
    placed = [*items, *(_placed(pen, items) for _ in range(pen.one((1, 1, 2))))]
    return _select(placed, f"{read.text}{_where(pen, read, depth)}")


def foremost(pen: Pen, depth: int) -> Query:
    """The first so many rows of each partition."""
    read = source(pen, query, depth)
    items = _scalars(pen, read.scope)
    number = f"{pen.one(('row_number', 'row_number', 'rank'))}() OVER ({_partition(pen, items)}{_order(pen, items)})"
    few = f"<= {pen.one((1, 2, 3))}"
    where = _where(pen, read, depth)
    if pen.chance(40):
        return _select(items, f"{read.text}{where} QUALIFY {number} {few}")
    place, alias = Column(pen.name("c"), Type.INT), pen.alias()
    ranked = _select([*items, (number, place)], f"{read.text}{where}")
    columns = ranked.columns if pen.chance(50) else ranked.columns[:-1]
    shown = [(f"{alias}.{c.name}", c) for c in columns]
    return _select(shown, f"({ranked.text}) {alias} WHERE {alias}.{ranked.columns[-1].name} {few}")


def best(pen: Pen, depth: int) -> Query:
    """The first so many in a total order: ties are equal rows."""
    read = source(pen, query, depth)
    items = _scalars(pen, read.scope)
    limit = f"{_order(pen, items)} LIMIT {pen.one((1, 2, 3, 5))}"
    return _select(items, f"{read.text}{_where(pen, read, depth)} {limit}")


def named(pen: Pen, depth: int) -> Query:
    """A common table expression, read once or more by the query that follows."""
    body = query(pen, depth - 1)
    name = pen.name("w")
    around = dict(pen.tables) if pen.chance(30) else {}
    main = pen.one([s for s in SHAPES if s is not named])(pen.reading(around | {name: body.columns}), depth - 1)
    return Query(f"WITH {name} AS ({body.text}) {main.text}", main.columns)


def unnested(pen: Pen, depth: int) -> Query:
    """explode among the selected expressions."""
    read = source(pen, query, depth)
    arrays = exact(read.scope, Type.ARRAY)
    if not arrays:
        return plain(pen, depth)
    element = (f"explode({pen.one(arrays).text})", Column(pen.name("e"), Type.INT))
    return _select([*_carried(pen, read.scope), element], f"{read.text}{_where(pen, read, depth)}")


def looked_up(pen: Pen, depth: int) -> Query:
    """Rows with what is known of a partner that many of them share."""
    numbered = [t for t in sorted(pen.tables) if {"id", "k"} <= {c.name for c in pen.tables[t]}]
    if not numbered:
        return plain(pen, depth)
    many, near = pen.one(numbered), pen.alias()
    id, key = (next(c for c in pen.tables[many] if c.name == name) for name in ("id", "k"))
    keyed = [t for t in sorted(pen.tables) if any(c.name == "k" and c.type is key.type for c in pen.tables[t])]
    one, far = pen.one(keyed), pen.alias()
    partner = Query(one, pen.tables[one])
    if pen.chance(60):
        values = [_aggregated(pen, renamed(pen.tables[one], one)) for _ in range(pen.one((1, 2)))]
        seldom = pen.one(("", " HAVING count(*) < 3", " HAVING count(*) > 1"))  # it comes and goes
        partner = _select([(f"{one}.k", key), *values], f"{one} GROUP BY {one}.k{seldom}")
        partner = replace(partner, text=f"({partner.text})")
    own = replace(key, within=near)
    kept = [(c.text, c) for c in (replace(id, within=near), own)]
    known = [_computed(pen, (own, *renamed(partner.columns, far))) for _ in range(pen.one((1, 2)))]
    known.append((f"{far}.{pen.one(partner.columns).name} IS NULL", Column(pen.name("c"), Type.BOOLEAN)))
    join, same = pen.one(("LEFT JOIN", "LEFT JOIN", "JOIN")), pen.one(("=", "=", "<=>"))
    return _select([*kept, *known], f"{many} {near} {join} {partner.text} {far} ON {near}.k {same} {far}.k")


SHAPES: tuple[Shape, ...] = (
    plain,
    looked_up,
    looked_up,
    grouped,
    grouped,
    distinct,
    combined,
    combined,
    windowed,
    foremost,
    best,
    named,
    unnested,
    whole,
)

WINDOWS: tuple[tuple[str, Type], ...] = (
    ("row_number()", Type.INT),
    ("rank()", Type.INT),
    ("dense_rank()", Type.INT),
    ("sum({int})", Type.BIGINT),
    ("count({string})", Type.BIGINT),
    ("max({this})", Type.DATE),
    ("min({this})", Type.STRING),
    ("lag({this})", Type.STRING),
    ("lead({this})", Type.INT),
    ("lag({this}, 2, 7)", Type.INT),
    ("ntile(2)", Type.INT),
    ("first_value({this})", Type.STRING),
    ("last_value({this})", Type.INT),
)
FRAMED = ("sum", "count", "max", "min", "first_value", "last_value")
FRAMES = (
    "",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
)
"""Rows that are equal in the order are equal altogether, so that their order in a frame of rows does not matter."""


def _select(items: Sequence[Item], tail: str, head: str = "SELECT") -> Query:
    """The items under names of their own: a column keeps its name if no earlier one has it."""
    columns: list[Column] = []
    for number, (_, column) in enumerate(items):
        taken = any(c.name == column.name for c in columns)
        columns.append(replace(column, name=f"{column.name}_{number}" if taken else column.name, within=""))
    listed = ", ".join(f"{text} AS {c.name}" for (text, _), c in zip(items, columns, strict=True))
    return Query(f"{head} {listed} FROM {tail}", tuple(columns))


def _where(pen: Pen, read: Source, depth: int) -> str:
    if pen.chance(3):
        return " WHERE 1 = 2"  # nothing at all
    return f" WHERE {restriction(pen, read.scope, query, depth)}" if pen.chance(50) else ""


def _carried(pen: Pen, scope: Columns) -> list[Item]:
    """Some columns as they are, whatever they hold."""
    return [(c.text, c) for c in dict.fromkeys(pen.some(scope, 1, 4))]


def _scalars(pen: Pen, scope: Columns) -> list[Item]:
    """Some columns that can be ordered."""
    columns = exact(scope)
    return [(c.text, c) for c in dict.fromkeys(pen.some(columns, 1, 4))] if columns else [_form(pen, scope)]


def _computed(pen: Pen, scope: Columns) -> Item:
    if not pen.chance(15):
        return _form(pen, scope)
    rounded = pen.one(apt(scope, INEXACT, lambda form: form.text))
    text = filled(pen, scope, rounded.text, rounded.type, depth=1)
    return text, Column(pen.name("c"), rounded.type, exact=False)


def _form(pen: Pen, scope: Columns) -> Item:
    type = pen.one([c.type for c in exact(scope)] or SCALARS)
    return form(pen, scope, type, depth=2), Column(pen.name("c"), type)


def _keys(pen: Pen, scope: Columns, least: int) -> list[Item]:
    """What to group by: columns that compare exactly, structs and arrays among them, and expressions."""
    columns = [c for c in scope if c.exact]
    picked = [(c.text, c) for c in dict.fromkeys(pen.some(columns, least, 2))] if columns else []
    return [*picked, _form(pen, scope)] if pen.chance(25) or len(picked) < least else picked


def _aggregated(pen: Pen, scope: Columns) -> Item:
    call = aggregate(pen, scope)
    return call.text, Column(pen.name("c"), call.type, call.exact)


def _grouping(pen: Pen, keys: Sequence[str]) -> str:
    if not keys:
        return ""
    listed = ", ".join(keys)
    if not pen.chance(15):
        return f" GROUP BY {listed}"
    return f" GROUP BY {pen.one((f'ROLLUP ({listed})', f'GROUPING SETS (({listed}), ({keys[0]}), ())'))}"


def _having(pen: Pen, scope: Columns, keys: Columns, by: str, depth: int) -> str:
    """Of no rows at all, Spark's grouping sets have no grand total, and DuckDB's one: it is never wanted."""
    if by.startswith((" GROUP BY ROLLUP", " GROUP BY GROUPING SETS")):
        return " HAVING count(*) > 0"
    if not pen.chance(35):
        return ""
    return f" HAVING {subqueries.having(pen, scope, keys, query, depth) if pen.chance(40) else having(pen, scope)}"


def _placed(pen: Pen, items: Sequence[Item]) -> Item:
    """A window over the partition that some of the items make."""
    call, type = pen.one(WINDOWS)
    seen = tuple(_seen(items))
    value = filled(pen, seen, call, type, depth=0)
    framed = call.startswith(FRAMED)
    if framed and not call.startswith(("first", "last")) and pen.chance(15):
        over = _partition(pen, items).strip()
    else:
        over = f"{_partition(pen, items)}{_order(pen, items)}{pen.one(FRAMES) if framed else ''}"
    return f"{value} OVER ({over})", Column(pen.name("c"), type)


def _partition(pen: Pen, items: Sequence[Item]) -> str:
    part = pen.some([t for t, _ in items], 0, 2)
    return f"PARTITION BY {', '.join(dict.fromkeys(part))} " if part else ""


def _order(pen: Pen, items: Sequence[Item]) -> str:
    return "ORDER BY " + ", ".join(f"{text}{pen.one(('', ' DESC', ' DESC NULLS FIRST'))}" for text, _ in items)


def _seen(items: Sequence[Item]) -> list[Column]:
    return [c for text, c in items if c.text == text]


def _first_branch(pen: Pen, depth: int) -> Query:
    read = source(pen, query, depth)
    return _select(_keys(pen, read.scope, least=1), f"{read.text}{_where(pen, read, depth)}")
