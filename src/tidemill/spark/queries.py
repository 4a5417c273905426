"""Spark SQL tasks: the user's text as it stands, its table names pointed at this run's inputs."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.eliminate_ctes import eliminate_ctes

from tidemill.algebra.dialect import parse, text_of


def point_tables_at(query: str, views: dict[str, str]) -> str:
    """Replace each table name by the view that holds it, and leave every other character alone.

    >>> point_tables_at("SELECT clicks.n FROM clicks", {"clicks": "v1"})
    'SELECT clicks.n FROM `v1` AS `clicks`'
    """
    tree = sqlglot.parse_one(query, dialect="spark")
    shadowed = {c.alias for c in tree.find_all(exp.CTE)}
    tables = [t for t in tree.find_all(exp.Table) if t.name in views and t.name not in shadowed]
    for table in sorted(tables, key=lambda t: -t.this.meta["start"]):
        alias = "" if table.alias else f" AS `{table.name}`"
        start, end = table.this.meta["start"], table.this.meta["end"] + 1
        query = f"{query[:start]}`{views[table.name]}`{alias}{query[end:]}"
    return query


def without_idle_names(query: str) -> str:
    """The same query without what WITH names and nobody reads, which Spark 4.3 trips over in derived tables.

    >>> without_idle_names("SELECT x FROM (WITH w AS (SELECT 1), v AS (SELECT 2 AS x) SELECT x FROM v)")
    'SELECT x FROM (WITH v AS (SELECT 2 AS x) SELECT x FROM v)'
    """
    return text_of(eliminate_ctes(parse(query)))
