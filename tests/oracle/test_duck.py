"""DuckDB is asked for Spark's result, also where DuckDB has faults."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.oracle.queries.duck import from_scratch

ROWS = [{"k": 1, "o": {"x": 1, "y": None}}, {"k": 2, "o": {"x": 1, "y": "a"}}]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [("o.y IN ('a', NULL)", [2]), ("NOT (o.y IN ('a', NULL))", []), ("(o.y IN ('a', NULL)) IS NULL", [1])],
)
def test_null_does_not_match_a_value_of_a_list(condition: str, expected: list[int]) -> None:
    results = from_scratch({"q": f"SELECT k, o FROM t WHERE {condition}"}, {"t": pa.Table.from_pylist(ROWS)})
    assert sorted(row["k"] for row in results["q"]) == expected
