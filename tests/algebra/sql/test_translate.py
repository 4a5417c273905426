"""Translation: a query without operators is rejected with the reason and runs as batch."""

from __future__ import annotations

import pytest

from tidemill.algebra.sql import NotIncremental, scan_channel, translate_query
from tidemill.algebra.sql.reading import read_query

SOURCES = {"t": scan_channel("t", {"k": "int", "v": "int"}), "u": scan_channel("u", {"k": "int"})}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k FROM t WHERE v > (SELECT sum(v) + (SELECT sum(v) FROM t) FROM t)",
        "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY (SELECT count(*) FROM t), k LIMIT 3",
        "SELECT sum(v + (SELECT max(k) FROM u)) AS total FROM t",
        "SELECT max_by(k, v + (SELECT max(k) FROM u)) AS most FROM t",
        "SELECT k, sum(v) OVER (PARTITION BY (SELECT max(k) FROM u)) AS total FROM t",
        "SELECT k, count(*) AS n FROM t GROUP BY k, v + (SELECT max(k) FROM u)",
    ],
)
def test_no_expression_contains_a_sub_query(query: str) -> None:
    try:
        result = repr(translate_query(query, SOURCES).op)
    except NotIncremental as reason:
        result = str(reason)
        assert "sub-query" in result
    else:
        assert "SELECT" not in result


def test_repeated_groups_of_all_rows_are_batch_only() -> None:
    """Spark has none of them where there are no rows, but has a single `GROUPING SETS (())`."""
    with pytest.raises(NotIncremental, match="several groups of all rows"):
        translate_query("SELECT count(*) AS n FROM t GROUP BY GROUPING SETS ((), ())", SOURCES)


@pytest.mark.parametrize(
    ("clause", "read_as"),
    [
        ("HAVING max(K) > 1", 'HAVING MAX(COALESCE("t.k", "u.k")) > 1'),
        ("GROUP BY k HAVING k > 1", 'GROUP BY COALESCE("t.k", "u.k") HAVING COALESCE("t.k", "u.k") > 1'),
        (
            "QUALIFY max(v) OVER (PARTITION BY k) > 1",
            'QUALIFY MAX("t.v") OVER (PARTITION BY COALESCE("t.k", "u.k")) > 1',
        ),
        ("HAVING EXISTS (SELECT 1 FROM u WHERE k > 1)", 'HAVING EXISTS(SELECT 1 AS "1" FROM u AS u WHERE "u.k" > 1)'),
    ],
)
def test_columns_of_using_are_resolved_in_every_clause(clause: str, read_as: str) -> None:
    tables = {name: source.columns for name, source in SOURCES.items()}
    qualified = read_query(f"SELECT max(v) AS m FROM t LEFT JOIN u USING (k) {clause}", tables)
    assert qualified.sql() == f'SELECT MAX("t.v") AS m FROM t AS t LEFT JOIN u AS u ON "t.k" = "u.k" {read_as}'
