"""Whatever queries are declared and whatever arrives: their tables equal the same queries run from scratch."""

from __future__ import annotations

import os

import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.oracle.queries import world
from tests.oracle.queries.case import Case
from tests.oracle.queries.columns import Column, Type
from tests.oracle.queries.generate import declarations, queries
from tests.oracle.queries.histories import NAMES, Input, Insert, channels, histories, inputs_of
from tests.oracle.queries.pen import Query
from tests.oracle.queries.report import Different

from tidemill.app import Tidemill
from tidemill.model.change import Signed

EXAMPLES = max(2, int(os.environ.get("TIDEMILL_EXAMPLES", "32")) // 16)
QUERIES = (4, 8)  # at least, at most
STEPS = 4

KEYWORDS = (
    *("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "USING", "<=>"),
    *(" EXISTS", "NOT EXISTS", " IN (SELECT", " NOT IN (SELECT", "(SELECT max", "(SELECT count(*)"),
    *("GROUP BY", "HAVING", "FILTER", "ROLLUP", "GROUPING SETS", "count(DISTINCT", "stddev", "bool_and", "avg"),
    *("SELECT DISTINCT", "UNION ALL", "UNION SELECT", "INTERSECT ALL", "INTERSECT SELECT", "EXCEPT ALL"),
    *("row_number()", "dense_rank()", "lag(", "PARTITION BY", "LIMIT", "WITH ", "LATERAL VIEW", " explode("),
    *("CASE", "BETWEEN", "LIKE", "IS NULL", "NOT (", "try_divide"),
)


@pytest.mark.timeout(3600)  # a failure is worth the time that it takes to make it small
@settings(max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(data=st.data())
def test_declared_queries_stay_fresh(data: st.DataObject, spark: SparkSession) -> None:
    found = data.draw(channels())
    history = data.draw(histories(found, STEPS))
    tables = data.draw(declarations({name: columns for name, (_, columns) in found.items()}, *QUERIES))
    for way, comparisons in world.search(spark, Case(tables, inputs_of(found), history)).items():
        event(f"comparisons after a refresh in {way}", comparisons)


def test_the_grammar_reaches_every_construct() -> None:
    tables = {table: tuple(Column(NAMES[t], t) for t in Type) for table in "tu"}
    texts: list[str] = []

    @settings(max_examples=600, database=None, derandomize=True, phases=(Phase.generate,))
    @given(query=queries(tables))
    def write(query: Query) -> None:
        texts.append(query.text)

    write()
    assert [k for k in KEYWORDS if not any(k in text for text in texts)] == []


def test_a_stale_table_is_found(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter([True, False])

    def first_only(mill: Tidemill, table: str) -> str:
        if next(runs):
            mill.run(table)
        return "none"

    monkeypatch.setattr(world, "refresh", first_only)
    inputs = [Input("t", "k int, f double", Signed())]
    history = [[Insert("t", [{"k": 1, "f": 0.5}])], [Insert("t", [{"k": 1, "f": 1.5}])]]
    with pytest.raises(Different, match="the table and Spark from scratch differ") as found:
        world.check(spark, {"q": "SELECT k, sum(f) AS s FROM t GROUP BY k"}, inputs, history)
    assert "only in the table: 1 rows\n  {'k': 1, 's': 0.5}" in str(found.value)
    assert "[Insert('t', [{'k': 1, 'f': 1.5}])]" in str(found.value)
