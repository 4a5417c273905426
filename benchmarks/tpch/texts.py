"""The texts of the queries, as `ibis-framework` ships them for DuckDB, in Spark's dialect.

Measurements with them are not TPC-H results and cannot be compared with them: nothing was audited. TPC Benchmark
and TPC-H are trademarks of the Transaction Processing Performance Council.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import sqlglot
from sqlglot import exp

from tidemill.errors import ConfigError

NUMBERS = range(1, 23)

_PACKAGE = "ibis"
_FOLDER = Path("backends", "tests", "tpc", "queries", "duckdb", "h")


@lru_cache
def get_text(number: int) -> str:
    """The query with a number.

    >>> get_text(4).splitlines()[:3]
    ['SELECT', '  o_orderpriority,', '  COUNT(*) AS order_count']
    """
    return to_spark_sql(_find_file(number).read_text(encoding="utf-8"))


def to_spark_sql(query: str) -> str:
    """A query of DuckDB as Spark SQL in which every column of the result has a name, as tables require.

    >>> print(to_spark_sql("SELECT k, count(*), t.v FROM t GROUP BY ALL"))
    SELECT
      k,
      COUNT(*) AS column_2,
      t.v
    FROM t
    GROUP BY ALL
    """
    tree = sqlglot.parse_one(query, dialect="duckdb")
    for position, item in enumerate(tree.selects if isinstance(tree, exp.Query) else [], 1):
        if not item.output_name and not item.is_star:
            item.replace(exp.alias_(item.copy(), f"column_{position}"))
    return tree.sql(dialect="spark", pretty=True)


def _find_file(number: int) -> Path:
    """Find a file of the package without importing it, which would take most of a second."""
    spec = find_spec(_PACKAGE)
    for location in (spec.submodule_search_locations if spec else None) or []:
        path = Path(location) / _FOLDER / f"{number:02}.sql"
        if path.is_file():
            return path
    problem = "is without them" if spec else "is not installed"
    raise ConfigError(
        f"the queries of TPC-H were expected in the package ibis-framework, which {problem}; run `make setup`"
    )
