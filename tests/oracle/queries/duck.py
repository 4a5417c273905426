"""The same queries in DuckDB: Spark's text in DuckDB's words, and rows handed over through Arrow."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from tidemill.model.change import Rows


def from_scratch(queries: Mapping[str, str], tables: Mapping[str, pa.Table]) -> dict[str, Rows]:
    """The result of each query over these tables; later queries may read earlier ones."""
    with duckdb.connect() as db:
        db.execute("PRAGMA disable_optimizer")  # DuckDB 2.0's takes NULL for a match where it scans fields of structs
        for name, table in tables.items():
            db.register("arrived", _without_zones(table))
            db.execute(f'CREATE TABLE "{name}" AS SELECT * FROM arrived')
        return {name: _result(db, name, text) for name, text in queries.items()}


def translated(query: str) -> str:
    """What DuckDB is asked for the same meaning.

    >>> translated("SELECT date_add(day, 1) AS d FROM t ORDER BY d")
    'SELECT CAST(CAST(day AS DATE) + INTERVAL 1 DAY AS DATE) AS d FROM t ORDER BY d NULLS FIRST'
    """
    tree = sqlglot.parse_one(query, dialect="spark")
    for rule in RULES:
        tree = tree.transform(rule)
    return tree.sql("duckdb")


def _dates_stay_dates(node: exp.Expression) -> exp.Expression:
    """In DuckDB a date plus an interval is a timestamp."""
    if isinstance(node, exp.TsOrDsAdd) and not isinstance(node.parent, exp.Cast):
        return exp.cast(node.copy(), exp.DType.DATE)
    return node


def _times_have_no_zone(node: exp.Expression) -> exp.Expression:
    """Spark's timestamps are instants, shown in UTC here; DuckDB is given that wall clock."""
    if isinstance(node, exp.DataType) and node.this in (exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ):
        return exp.DataType.build("TIMESTAMP", dialect="duckdb")
    return node


def _outer_views_keep_rows(node: exp.Expression) -> exp.Expression:
    """sqlglot forgets the OUTER of a LATERAL VIEW: no element is then no row, where Spark has one with NULL."""
    if not (isinstance(node, exp.Lateral) and node.args.get("outer")):
        return node
    array = node.this.this
    filled = exp.ArraySize(this=array.copy()) > 0
    node.this.set("this", exp.func("if", filled, array.copy(), exp.Array(expressions=[exp.null()])))
    return node


def _collects_of_nothing_are_empty(node: exp.Expression) -> exp.Expression:
    """Of no values Spark collects an empty array, DuckDB NULL."""
    collected = node.this if isinstance(node, exp.ArraySize | exp.ArraySort) else None
    if isinstance(collected, exp.ArrayAgg | exp.ArrayUniqueAgg):
        node.set("this", exp.func("coalesce", collected.copy(), exp.Array(expressions=[])))
    return node


RULES = (
    _collects_of_nothing_are_empty,
    _dates_stay_dates,
    _times_have_no_zone,
    _outer_views_keep_rows,
)


def _result(db: duckdb.DuckDBPyConnection, name: str, text: str) -> Rows:
    db.execute(f'CREATE TABLE "{name}" AS {translated(text)}')
    made = db.table(name)
    return [dict(zip(made.columns, values, strict=True)) for values in made.fetchall()]


def _without_zones(table: pa.Table) -> pa.Table:
    fields = [f.with_type(pa.timestamp("us")) if pa.types.is_timestamp(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))
