"""Workflows as documents: valid definitions and rejected ones."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.app.registry import build_workflow, find_violations, parse_definition
from tidemill.errors import BadInput, WorkflowError

SHOP: dict[str, Any] = {
    "name": "shop",
    "inputs": [{"name": "orders", "columns": "id int, item string, price int", "key": ["id"]}],
    "tables": [
        {
            "name": "totals",
            "query": "SELECT item, sum(price) AS price FROM orders GROUP BY item",
            "triggers": [
                {"kind": "all", "parts": [{"kind": "data", "channel": "orders"}, {"kind": "every", "seconds": 60}]},
                {"kind": "cron", "expression": "0 3 * * *"},
            ],
        }
    ],
}


def test_a_document_becomes_a_workflow() -> None:
    workflow = build_workflow(parse_definition(SHOP))
    (binding,) = workflow.bindings
    assert [str(t) for t in binding.triggers] == [
        "all of (data on orders; every 60 s)",
        "cron '0 3 * * *' (UTC)",
    ]
    assert {"orders", "totals"} <= {c.name for c in workflow.channels}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM parquet.`/etc/passwd`",
        "SELECT * FROM other.orders",
        "SELECT item FROM orders WHERE id IN (SELECT id FROM json.`/etc/hosts`)",
        "SELECT reflect('java.lang.System', 'getenv', 'HOME') FROM orders",
        "SELECT `java_method`('a', 'b') FROM orders",
        "SELECT system.builtin.try_reflect('a', 'b') FROM orders",
        "SELECT IDENTIFIER('reflect')('a', 'b') FROM orders",
        "SELECT * FROM IDENTIFIER('parquet.`/etc`')",
        "SELECT TRANSFORM(item) USING 'cat' FROM orders",
        "SELECT '${env:HOME}' FROM orders",
        "SELECT * FROM read_files('/etc')",
        "SELECT * FROM range(10)",
        "SELECT input_file_name() FROM orders",
        "DROP TABLE orders",
        "INSERT INTO orders SELECT 1",
        "CREATE TABLE x AS SELECT 1",
        "SELECT 1; SELECT 2",
        "SELECT * FROM nothing",
        "SELECT 1",
        "SELECT",
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "",
    ],
)
def test_unsafe_and_invalid_queries_are_rejected(query: str) -> None:
    assert list(find_violations(query, {"orders"}))
    document = {**SHOP, "tables": [{"name": "t", "query": query}]}
    with pytest.raises((WorkflowError, BadInput)):
        build_workflow(parse_definition(document))


@pytest.mark.parametrize(
    "query",
    [
        "WITH x AS (SELECT * FROM orders) SELECT /*+ BROADCAST(x) */ item FROM x",
        "SELECT item, user FROM orders",
        "FROM orders SELECT item",
        "SELECT a FROM orders LATERAL VIEW explode(array(1, 2)) t AS a",
    ],
)
def test_ordinary_queries_are_accepted(query: str) -> None:
    assert list(find_violations(query, {"orders"})) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "../etc"}, "name"),
        ({"name": "a'; DROP TABLE runs; --"}, "name"),
        ({"inputs": [{"name": "o", "columns": 5}]}, "columns"),
        ({"tables": [{"name": "t", "query": "SELECT 1", "code": "import os"}]}, "code"),
        ({"tables": [{"name": "t", "query": "SELECT 1", "triggers": [{"kind": "every", "seconds": -1}]}]}, "seconds"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_document_of_another_form_is_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        parse_definition(SHOP | changes)
