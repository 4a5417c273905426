"""The identity of a declared table depends on its query and on the names and types of the columns that it reads."""

from __future__ import annotations

import pytest

import tidemill as tm
from tidemill.model.task import Task

QUERIES = [
    "SELECT city, sum(amount) AS s FROM sales GROUP BY city",
    "SELECT city, collect_list(amount) AS s FROM sales GROUP BY city",
    "SELECT city, amount, row_number() OVER (PARTITION BY city ORDER BY amount) AS r FROM sales",
    "SELECT city, amount FROM sales ORDER BY amount LIMIT 3",
    "SELECT sales.amount, b.z FROM sales JOIN b USING (city)",
    "SELECT amount, city FROM sales UNION SELECT z, city FROM b",
    "SELECT city FROM b WHERE EXISTS (SELECT 1 FROM sales WHERE sales.amount = b.z)",
    "SELECT city, amount FROM (SELECT * FROM sales)",
]


def declare_table(columns: str, query: str, schema: str | None = None) -> Task:
    wf = tm.Workflow("w")
    wf.input("sales", columns)
    wf.input("b", "city string, z int")
    if schema is not None:
        wf.table("t", schema)
    wf.sql("t", query)
    (binding,) = wf.build_spec().bindings
    return binding.tasks[0]


@pytest.mark.parametrize("query", QUERIES)
def test_a_column_that_is_not_read_does_not_change_the_identity(query: str) -> None:
    before = declare_table("city string, amount int", query)
    assert before.batch_reason is None
    assert before.compute_identity() == declare_table("city string, amount int, note string", query).compute_identity()
    assert before.compute_identity() == declare_table("city string, amount int, note date", query).compute_identity()


@pytest.mark.parametrize("query", QUERIES)
def test_the_type_of_a_column_that_is_read_changes_the_identity(query: str) -> None:
    before = declare_table("city string, amount int", query)
    assert before.compute_identity() != declare_table("city string, amount bigint", query).compute_identity()


def test_a_star_reads_all_columns() -> None:
    before = declare_table("city string, amount int", "SELECT * FROM sales")
    assert (
        before.compute_identity()
        != declare_table("city string, amount int, note string", "SELECT * FROM sales").compute_identity()
    )


def test_the_declared_schema_changes_the_identity() -> None:
    tasks = [
        declare_table("city string, amount int", "SELECT amount FROM sales", f"amount {t}") for t in ("int", "bigint")
    ]
    assert tasks[0].compute_identity() != tasks[1].compute_identity()
