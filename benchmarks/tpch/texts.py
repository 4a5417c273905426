"""The texts of the queries, as `ibis-framework` ships them for DuckDB, in Spark's dialect.

What is measured with them is not a TPC-H result, and cannot be compared with one: nothing was audited. TPC Benchmark
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
def text_of(number: int) -> str:
    """The query of that number.

    >>> text_of(4).splitlines()[:3]
    ['SELECT', '  o_orderpriority,', '  COUNT(*) AS order_count']
    """
    return in_spark(_file(number).read_text(encoding="utf-8"))


def in_spark(query: str) -> str:
    """A query of DuckDB as Spark SQL in which every column of the result has a name, since a table's need one.

    >>> print(in_spark("SELECT k, count(*), t.v FROM t GROUP BY ALL"))
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


def _file(number: int) -> Path:
    """Found without importing the package, which would take most of a second."""
    spec = find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations if spec else None) or []:
        path = Path(place) / _FOLDER / f"{number:02}.sql"
        if path.is_file():
            return path
    found = "is without them" if spec else "is not installed"
    raise ConfigError(
        f"the queries of TPC-H were expected in the package ibis-framework, which {found}; run `make setup`"
    )
