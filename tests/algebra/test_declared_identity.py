"""A declared table is known by its query, and by the columns that it reads: their names and types."""

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


def declared(columns: str, query: str, schema: str | None = None) -> Task:
    wf = tm.Workflow("w")
    wf.input("sales", columns)
    wf.input("b", "city string, z int")
    if schema is not None:
        wf.table("t", schema)
    wf.sql("t", query)
    (binding,) = wf.declared().bindings
    return binding.tasks[0]


@pytest.mark.parametrize("query", QUERIES)
def test_a_column_that_a_query_does_not_read_is_no_part_of_its_identity(query: str) -> None:
    before = declared("city string, amount int", query)
    assert before.batch_reason is None
    assert before.compute_identity() == declared("city string, amount int, note string", query).compute_identity()
    assert before.compute_identity() == declared("city string, amount int, note date", query).compute_identity()


@pytest.mark.parametrize("query", QUERIES)
def test_the_type_of_one_that_it_reads_is(query: str) -> None:
    before = declared("city string, amount int", query)
    assert before.compute_identity() != declared("city string, amount bigint", query).compute_identity()


def test_all_columns_are_read_by_a_star() -> None:
    before = declared("city string, amount int", "SELECT * FROM sales")
    assert (
        before.compute_identity()
        != declared("city string, amount int, note string", "SELECT * FROM sales").compute_identity()
    )


def test_the_schema_that_a_table_is_held_to_is_part_of_its_identity() -> None:
    tasks = [declared("city string, amount int", "SELECT amount FROM sales", f"amount {t}") for t in ("int", "bigint")]
    assert tasks[0].compute_identity() != tasks[1].compute_identity()
