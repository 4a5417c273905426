"""The shapes of a query, each of which may read the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.oracle.queries import subqueries
from tests.oracle.queries.aggregates import aggregate, having
from tests.oracle.queries.columns import SCALARS, Column, Columns, Type
from tests.oracle.queries.expressions import INEXACT, expression, fill_template, form, list_applicable
from tests.oracle.queries.sources import Source, source
from tests.oracle.queries.subqueries import membership, restriction, scalar
from tests.oracle.queries.writer import Query, QueryWriter, exact, qualify_columns

Shape = Callable[[QueryWriter, int], Query]
Item = tuple[str, Column]
"""An expression, and the column that it becomes."""


def query(writer: QueryWriter, depth: int) -> Query:
    """Any query: the shape is drawn, and sub-queries are at most `depth` levels deep."""
    return writer.one(SHAPES)(writer, depth)


def select_columns(writer: QueryWriter, depth: int) -> Query:
    read = source(writer, query, depth)
    items = _pick_columns(writer, read.scope) + [
        _compute_value(writer, read.scope) for _ in range(writer.one((0, 1, 2)))
    ]
    if writer.chance(15):
        items.append((scalar(writer, read.scope, query, depth), Column(writer.name("c"), Type.BIGINT)))
    if writer.chance(5):
        tested = membership(writer, read.scope, query, depth)
        items.append((f"CASE WHEN {tested} THEN 1 ELSE 0 END", Column(writer.name("c"), Type.INT)))
    return _select(items, f"{read.text}{_where(writer, read, depth)}")


def select_star(writer: QueryWriter, depth: int) -> Query:
    """All columns of one table, some of its rows."""
    table = writer.one(sorted(writer.tables))
    alias = writer.alias()
    read = Source(f"{table} {alias}", tuple(replace(c, within=alias) for c in writer.tables[table]))
    return Query(f"SELECT * FROM {read.text}{_where(writer, read, depth)}", writer.tables[table])


def select_distinct(writer: QueryWriter, depth: int) -> Query:
    read = source(writer, query, depth)
    items = _pick_keys(writer, read.scope, least=1)
    return _select(items, f"{read.text}{_where(writer, read, depth)}", "SELECT DISTINCT")


def group_rows(writer: QueryWriter, depth: int) -> Query:
    read = source(writer, query, depth)
    keys = _pick_keys(writer, read.scope, least=0)
    items = keys + [_aggregate_column(writer, read.scope) for _ in range(writer.one((1, 2, 3)))]
    by = _grouping(writer, [text for text, _ in keys])
    selected = _having(writer, read.scope, tuple(_list_columns(keys)), by, depth)
    return _select(items, f"{read.text}{_where(writer, read, depth)}{by}{selected}")


def combine_queries(writer: QueryWriter, depth: int) -> Query:
    """Two selects of the same types as one bag or set."""
    operator = writer.one(("UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"))
    first = _first_branch(writer, depth)
    other = source(writer, query, depth - 1)
    types = [writer.one(WIDER.get(c.type, (c.type,))) if writer.chance(30) else c.type for c in first.columns]
    items = [(expression(writer, other.scope, t), c) for t, c in zip(types, first.columns, strict=True)]
    second = _select(items, f"{other.text}{_where(writer, other, depth - 1)}")
    columns = tuple(replace(c, type=_wider(c.type, t)) for c, t in zip(first.columns, types, strict=True))
    return Query(f"{first.text} {operator} {second.text}", columns)


WIDER = {
    Type.INT: (Type.BIGINT, Type.DOUBLE, Type.DECIMAL),
    Type.BIGINT: (Type.INT, Type.DOUBLE),
    Type.DECIMAL: (Type.INT, Type.DOUBLE),
    Type.DOUBLE: (Type.INT, Type.BIGINT, Type.DECIMAL),
}
"""The types that may be combined with a numeric type in one column of a set operation."""

_WIDTHS = (Type.INT, Type.BIGINT, Type.DECIMAL, Type.DOUBLE)


def _wider(one: Type, other: Type) -> Type:
    return one if one is other else max(one, other, key=_WIDTHS.index)


def add_windows(writer: QueryWriter, depth: int) -> Query:
    """Columns with ranks or running values over their partition, ordered by all columns."""
    read = source(writer, query, depth)
    items = _pick_scalars(writer, read.scope)
    with_windows = [*items, *(_add_window(writer, items) for _ in range(writer.one((1, 1, 2))))]
    return _select(with_windows, f"{read.text}{_where(writer, read, depth)}")


def limit_per_partition(writer: QueryWriter, depth: int) -> Query:
    """The first rows of each partition."""
    read = source(writer, query, depth)
    items = _pick_scalars(writer, read.scope)
    ranking = writer.one(("row_number", "row_number", "rank"))
    number = f"{ranking}() OVER ({_partition(writer, items)}{_order(writer, items)})"
    few = f"<= {writer.one((1, 2, 3))}"
    where = _where(writer, read, depth)
    if writer.chance(40):
        return _select(items, f"{read.text}{where} QUALIFY {number} {few}")
    place, alias = Column(writer.name("c"), Type.INT), writer.alias()
    ranked = _select([*items, (number, place)], f"{read.text}{where}")
    columns = ranked.columns if writer.chance(50) else ranked.columns[:-1]
    shown = [(f"{alias}.{c.name}", c) for c in columns]
    return _select(shown, f"({ranked.text}) {alias} WHERE {alias}.{ranked.columns[-1].name} {few}")


def limit_rows(writer: QueryWriter, depth: int) -> Query:
    """The first rows in a total order: ties are equal rows."""
    read = source(writer, query, depth)
    items = _pick_scalars(writer, read.scope)
    limit = f"{_order(writer, items)} LIMIT {writer.one((1, 2, 3, 5))}"
    return _select(items, f"{read.text}{_where(writer, read, depth)} {limit}")


def use_cte(writer: QueryWriter, depth: int) -> Query:
    """A common table expression, read once or more by the query that follows."""
    body = query(writer, depth - 1)
    name = writer.name("w")
    around = dict(writer.tables) if writer.chance(30) else {}
    main = writer.one([s for s in SHAPES if s is not use_cte])(writer.reading(around | {name: body.columns}), depth - 1)
    return Query(f"WITH {name} AS ({body.text}) {main.text}", main.columns)


def explode_array(writer: QueryWriter, depth: int) -> Query:
    """A query with explode among the selected expressions."""
    read = source(writer, query, depth)
    arrays = exact(read.scope, Type.ARRAY)
    if not arrays:
        return select_columns(writer, depth)
    element = (f"explode({writer.one(arrays).text})", Column(writer.name("e"), Type.INT))
    return _select([*_pick_columns(writer, read.scope), element], f"{read.text}{_where(writer, read, depth)}")


def join_lookup(writer: QueryWriter, depth: int) -> Query:
    """Rows joined with a partner row that many of them share."""
    numbered = [t for t in sorted(writer.tables) if {"id", "k"} <= {c.name for c in writer.tables[t]}]
    if not numbered:
        return select_columns(writer, depth)
    many, near = writer.one(numbered), writer.alias()
    id, key = (next(c for c in writer.tables[many] if c.name == name) for name in ("id", "k"))
    keyed = [t for t in sorted(writer.tables) if any(c.name == "k" and c.type is key.type for c in writer.tables[t])]
    one, far = writer.one(keyed), writer.alias()
    partner = Query(one, writer.tables[one])
    if writer.chance(60):
        values = [
            _aggregate_column(writer, qualify_columns(writer.tables[one], one)) for _ in range(writer.one((1, 2)))
        ]
        having_clause = writer.one(
            ("", " HAVING count(*) < 3", " HAVING count(*) > 1")
        )  # the partner appears and disappears
        partner = _select([(f"{one}.k", key), *values], f"{one} GROUP BY {one}.k{having_clause}")
        partner = replace(partner, text=f"({partner.text})")
    own_key = replace(key, within=near)
    selected = [(c.text, c) for c in (replace(id, within=near), own_key)]
    partner_values = [
        _compute_value(writer, (own_key, *qualify_columns(partner.columns, far))) for _ in range(writer.one((1, 2)))
    ]
    partner_values.append((f"{far}.{writer.one(partner.columns).name} IS NULL", Column(writer.name("c"), Type.BOOLEAN)))
    join, same = writer.one(("LEFT JOIN", "LEFT JOIN", "JOIN")), writer.one(("=", "=", "<=>"))
    return _select(
        [*selected, *partner_values], f"{many} {near} {join} {partner.text} {far} ON {near}.k {same} {far}.k"
    )


SHAPES: tuple[Shape, ...] = (
    select_columns,
    join_lookup,
    join_lookup,
    group_rows,
    group_rows,
    select_distinct,
    combine_queries,
    combine_queries,
    add_windows,
    limit_per_partition,
    limit_rows,
    use_cte,
    explode_array,
    select_star,
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
"""Rows with equal order columns are equal in all columns, so that their order in a frame does not matter."""


def _select(items: Sequence[Item], tail: str, head: str = "SELECT") -> Query:
    """The items under unique names: a column keeps its name if no earlier one has it."""
    columns: list[Column] = []
    for number, (_, column) in enumerate(items):
        taken, name = {c.name for c in columns}, column.name
        while name in taken:
            name = f"{name}_{number}"
        columns.append(replace(column, name=name, within=""))
    listed = ", ".join(f"{text} AS {c.name}" for (text, _), c in zip(items, columns, strict=True))
    return Query(f"{head} {listed} FROM {tail}", tuple(columns))


def _where(writer: QueryWriter, read: Source, depth: int) -> str:
    if writer.chance(3):
        return " WHERE 1 = 2"  # no rows
    return f" WHERE {restriction(writer, read.scope, query, depth)}" if writer.chance(50) else ""


def _pick_columns(writer: QueryWriter, scope: Columns) -> list[Item]:
    """Some columns of any type, unchanged."""
    return [(c.text, c) for c in dict.fromkeys(writer.some(scope, 1, 4))]


def _pick_scalars(writer: QueryWriter, scope: Columns) -> list[Item]:
    """Some columns that can be ordered."""
    columns = exact(scope)
    return (
        [(c.text, c) for c in dict.fromkeys(writer.some(columns, 1, 4))]
        if columns
        else [_compute_exact_value(writer, scope)]
    )


def _compute_value(writer: QueryWriter, scope: Columns) -> Item:
    if not writer.chance(15):
        return _compute_exact_value(writer, scope)
    rounded = writer.one(list_applicable(scope, INEXACT, lambda form: form.text))
    text = fill_template(writer, scope, rounded.text, rounded.type, depth=1)
    return text, Column(writer.name("c"), rounded.type, exact=False)


def _compute_exact_value(writer: QueryWriter, scope: Columns) -> Item:
    type = writer.one([c.type for c in exact(scope)] or SCALARS)
    return form(writer, scope, type, depth=2), Column(writer.name("c"), type)


def _pick_keys(writer: QueryWriter, scope: Columns, least: int) -> list[Item]:
    """Grouping keys: columns that compare exactly, including structs and arrays, and expressions."""
    columns = [c for c in scope if c.exact]
    picked = [(c.text, c) for c in dict.fromkeys(writer.some(columns, least, 2))] if columns else []
    return [*picked, _compute_exact_value(writer, scope)] if writer.chance(25) or len(picked) < least else picked


def _aggregate_column(writer: QueryWriter, scope: Columns) -> Item:
    call = aggregate(writer, scope)
    return call.text, Column(writer.name("c"), call.type, call.exact)


def _grouping(writer: QueryWriter, keys: Sequence[str]) -> str:
    if not keys:
        return ""
    listed = ", ".join(keys)
    if not writer.chance(15):
        return f" GROUP BY {listed}"
    return f" GROUP BY {writer.one((f'ROLLUP ({listed})', f'GROUPING SETS (({listed}), ({keys[0]}), ())'))}"


def _having(writer: QueryWriter, scope: Columns, keys: Columns, by: str, depth: int) -> str:
    """For empty input, grouping sets have no grand total in Spark and one in DuckDB: it is always excluded."""
    if by.startswith((" GROUP BY ROLLUP", " GROUP BY GROUPING SETS")):
        return " HAVING count(*) > 0"
    if not writer.chance(35):
        return ""
    condition = subqueries.having(writer, scope, keys, query, depth) if writer.chance(40) else having(writer, scope)
    return f" HAVING {condition}"


def _add_window(writer: QueryWriter, items: Sequence[Item]) -> Item:
    """A window over a partition by some of the items."""
    call, type = writer.one(WINDOWS)
    columns = tuple(_list_columns(items))
    value = fill_template(writer, columns, call, type, depth=0)
    framed = call.startswith(FRAMED)
    if framed and not call.startswith(("first", "last")) and writer.chance(15):
        over = _partition(writer, items).strip()
    else:
        over = f"{_partition(writer, items)}{_order(writer, items)}{writer.one(FRAMES) if framed else ''}"
    return f"{value} OVER ({over})", Column(writer.name("c"), type)


def _partition(writer: QueryWriter, items: Sequence[Item]) -> str:
    part = writer.some([t for t, _ in items], 0, 2)
    return f"PARTITION BY {', '.join(dict.fromkeys(part))} " if part else ""


def _order(writer: QueryWriter, items: Sequence[Item]) -> str:
    return "ORDER BY " + ", ".join(f"{text}{writer.one(('', ' DESC', ' DESC NULLS FIRST'))}" for text, _ in items)


def _list_columns(items: Sequence[Item]) -> list[Column]:
    return [c for text, c in items if c.text == text]


def _first_branch(writer: QueryWriter, depth: int) -> Query:
    read = source(writer, query, depth)
    return _select(_pick_keys(writer, read.scope, least=1), f"{read.text}{_where(writer, read, depth)}")
