"""The dialect renders a query with every function as the user wrote it."""

from __future__ import annotations

import pytest

from tidemill.algebra.dialect import MisparsedQuery, parse_query, to_sql


@pytest.mark.parametrize(
    "value",
    [
        "ARRAY(v, k)[1]",
        "ARRAY(ARRAY(1))[0][0]",
        "MAX_BY(k, id, 2)",
        "MIN_BY(k, id, 2)",
        "CEIL(m, 1)",
        "FLOOR(m, 1)",
        "DECODE(g, 'a', 1, 2)",
        "DECODE(b, 'utf-8')",
        "INITCAP(g)",
        "CHR(65)",
        "CHAR(65)",
        "PERCENTILE(v, 0.5, 2)",
        "APPROX_PERCENTILE(v, ARRAY(0.0, 1.0), 100)",
        "LISTAGG(DISTINCT g, ',') WITHIN GROUP (ORDER BY g)",
        "STRING_AGG(g) WITHIN GROUP (ORDER BY g DESC)",
        "NORMALIZE(g)",
    ],
)
def test_functions_keep_their_arguments(value: str, caplog: pytest.LogCaptureFixture) -> None:
    query = f"SELECT {value} FROM t"
    assert to_sql(parse_query(query)) == query
    assert caplog.text == ""


@pytest.mark.parametrize(
    "query",
    [
        "FROM t |> ORDER BY k |> LIMIT 2 |> WHERE k > 1",
        "SELECT k FROM t LIMIT 2 |> WHERE k > 1",
        "SELECT k, g, count(*) FROM t GROUP BY k, g GROUPING SETS ((k), (g))",
    ],
)
def test_a_query_that_would_change_its_meaning_is_not_parsed(query: str) -> None:
    with pytest.raises(MisparsedQuery, match="only supported in batch"):
        parse_query(query)


@pytest.mark.parametrize("sets", ["GROUPING SETS ((k), ())", "k, GROUPING SETS ((g), ())"])
def test_grouping_sets_are_parsed(sets: str) -> None:
    parse_query(f"SELECT k, g, count(*) FROM t GROUP BY {sets}")
