"""Translation: what has no operators is refused with the reason, and so left to batch."""

from __future__ import annotations

import pytest

from tidemill.algebra.sql import NotIncremental, Source, translate

SOURCES = {"t": Source({"k": "int", "v": "int"}), "u": Source({"k": "int"})}


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
def test_a_sub_query_is_never_left_in_an_expression(query: str) -> None:
    try:
        found = repr(translate(query, SOURCES).root)
    except NotIncremental as reason:
        found = str(reason)
        assert "sub-query" in found
    else:
        assert "SELECT" not in found
