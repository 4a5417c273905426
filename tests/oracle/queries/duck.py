"""The same queries in DuckDB: translated from Spark's dialect, with rows passed through Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from tidemill.model.change import Rows


def from_scratch(queries: Mapping[str, str], tables: Mapping[str, pa.Table]) -> dict[str, Rows]:
    """The result of each query over these tables; later queries may read earlier ones."""
    with duckdb.connect() as db:
        # The optimizer of DuckDB 2.0 treats NULL as a match when it scans fields of structs.
        db.execute("PRAGMA disable_optimizer")
        for name, table in tables.items():
            db.register("arrived", _drop_zones(table))
            db.execute(f'CREATE TABLE "{name}" AS SELECT * FROM arrived')
        return {name: _run_query(db, name, text) for name, text in queries.items()}


@cache
def translate_query(query: str) -> str:
    """The equivalent query in DuckDB's dialect.

    >>> translate_query("SELECT date_add(day, 1) AS d FROM t ORDER BY d")
    'SELECT CAST(CAST(day AS DATE) + INTERVAL 1 DAY AS DATE) AS d FROM t ORDER BY d NULLS FIRST'
    """
    tree = sqlglot.parse_one(query, dialect="spark")
    for rule in RULES:
        tree = tree.transform(rule)
    return tree.sql("duckdb")


def _cast_dates(node: exp.Expression) -> exp.Expression:
    """Cast the sum of a date and an interval to a date: in DuckDB it is a timestamp."""
    if isinstance(node, exp.TsOrDsAdd) and not isinstance(node.parent, exp.Cast):
        return exp.cast(node.copy(), exp.DType.DATE)
    return node


def _remove_time_zones(node: exp.Expression) -> exp.Expression:
    """Spark's timestamps are instants, shown in UTC here; DuckDB gets the UTC local time."""
    if isinstance(node, exp.DataType) and node.this in (exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ):
        return exp.DataType.build("TIMESTAMP", dialect="duckdb")
    return node


def _restore_outer_views(node: exp.Expression) -> exp.Expression:
    """sqlglot drops the OUTER of a LATERAL VIEW: an empty array then has no row, where Spark has one with NULL."""
    if not (isinstance(node, exp.Lateral) and node.args.get("outer")):
        return node
    array = node.this.this
    filled = exp.ArraySize(this=array.copy()) > 0
    node.this.set("this", exp.func("if", filled, array.copy(), exp.Array(expressions=[exp.null()])))
    return node


def _collect_empty_arrays(node: exp.Expression) -> exp.Expression:
    """Without values Spark collects an empty array, DuckDB NULL."""
    collected = node.this if isinstance(node, exp.ArraySize | exp.ArraySort) else None
    if isinstance(collected, exp.ArrayAgg | exp.ArrayUniqueAgg):
        node.set("this", exp.func("coalesce", collected.copy(), exp.Array(expressions=[])))
    return node


RULES = (
    _collect_empty_arrays,
    _cast_dates,
    _remove_time_zones,
    _restore_outer_views,
)


def _run_query(db: duckdb.DuckDBPyConnection, name: str, text: str) -> Rows:
    db.execute(f'CREATE TABLE "{name}" AS {translate_query(text)}')
    table = db.table(name)
    return [dict(zip(table.columns, values, strict=True)) for values in table.fetchall()]


def _drop_zones(table: pa.Table) -> pa.Table:
    fields = [f.with_type(pa.timestamp("us")) if pa.types.is_timestamp(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))
