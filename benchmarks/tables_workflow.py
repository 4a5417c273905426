"""A workflow of many small tables, for measurements of what grows with their number."""

from __future__ import annotations

from pathlib import Path

import tidemill as tm

TABLES_PER_INPUT = 20
DERIVED_EVERY = 4
"""Of so many tables, the last one reads the one before it, and the others read inputs."""


def count_inputs(tables: int) -> int:
    return -(-tables // TABLES_PER_INPUT)


def build_workflow(tables: int, target_lag: float | None = None) -> tm.Workflow:
    """A workflow in which no two tables have the same columns. `target_lag`: the target of every table, in seconds."""
    workflow = tm.Workflow("tables")
    inputs = count_inputs(tables)
    for number in range(inputs):
        workflow.input(f"in{number}", f"id bigint, k{number} bigint, v bigint")
    for number in range(tables):
        workflow.table(f"t{number}", f"k bigint, n{number} bigint, s bigint")
        source = number % inputs
        if number % DERIVED_EVERY == DERIVED_EVERY - 1:
            query = (
                f"SELECT k % 10 AS k, sum(n{number - 1}) AS n{number}, sum(s) AS s FROM t{number - 1} GROUP BY k % 10"
            )
        else:
            query = f"SELECT k{source} AS k, count(*) AS n{number}, sum(v) AS s FROM in{source} GROUP BY k{source}"
        workflow.sql(f"t{number}", query, target_lag=target_lag)
    return workflow


def format_workflow_file(tables: int, target_lag: float | None = None) -> str:
    """The text of a workflow file that declares this workflow, and imports only Tidemill."""
    return Path(__file__).read_text() + f"\n\nwf = build_workflow({tables}, {target_lag})\n"


def format_rows(source: int, first: int, count: int) -> str:
    """A CSV file of rows of an input."""
    rows = (f"{n},{n % 50},{n}\n" for n in range(first, first + count))
    return f"id,k{source},v\n" + "".join(rows)
