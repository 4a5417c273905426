"""DuckDB is asked for what Spark would answer, also where it has faults of its own."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.oracle.queries.duck import from_scratch

ROWS = [{"k": 1, "o": {"x": 1, "y": None}}, {"k": 2, "o": {"x": 1, "y": "a"}}]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [("o.y IN ('a', NULL)", [2]), ("NOT (o.y IN ('a', NULL))", []), ("(o.y IN ('a', NULL)) IS NULL", [1])],
)
def test_null_is_not_among_values(condition: str, kept: list[int]) -> None:
    found = from_scratch({"q": f"SELECT k, o FROM t WHERE {condition}"}, {"t": pa.Table.from_pylist(ROWS)})
    assert sorted(row["k"] for row in found["q"]) == kept
