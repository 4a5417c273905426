"""What Spark reports on queries and functions when a workflow is applied, and its effect on plans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import WorkflowError


def shop() -> tm.Workflow:
    wf = tm.Workflow("shop")
    wf.input("orders", "id bigint, city string, amount double")
    return wf


@contextmanager
def open_project(directory: Path, wf: tm.Workflow) -> Iterator[Tidemill]:
    with Tidemill(directory, Settings(), Project((wf.build_spec(),))) as mill:
        yield mill


def run_variants(mill: Tidemill, flow: str) -> dict[str, str]:
    run, _ = mill.run(flow)
    return {name: task["variant"] for name, task in run.stats["tasks"].items()}


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("SELECT city,\n amout FROM orders", r"UNRESOLVED_COLUMN.*`amout` cannot be resolved.*`amount`.*line 2"),
        ("SELECT (city FROM orders", r"PARSE_SYNTAX_ERROR.*line 1"),
        ("SELECT city, sum(amount) FROM orders", "MISSING_GROUP_BY"),
        ("SELECT nosuch(city) FROM orders", "UNRESOLVED_ROUTINE"),
        ("SELECT * FROM orders a JOIN orders b ON a.id = b.id", "two columns of the result are called id"),
        ("SELECT NULL AS nothing, id FROM orders", "column nothing is NULL without a type"),
    ],
)
def test_a_query_that_spark_rejects_is_rejected_by_apply(
    spark: SparkSession, tmp_path: Path, query: str, error: str
) -> None:
    wf = shop()
    wf.sql("bad", query)
    with open_project(tmp_path, wf) as mill:
        with pytest.raises(WorkflowError, match=rf"(?s)test_analysis.py:\d+: query 'bad': .*{error}"):
            mill.apply()
        assert mill.catalog.channels.list() == []


def test_all_rejected_queries_are_reported_together(spark: SparkSession, tmp_path: Path) -> None:
    wf = shop()
    wf.sql("one", "SELECT nope FROM orders")
    wf.sql("two", "SELECT neither FROM orders")
    with open_project(tmp_path, wf) as mill, pytest.raises(WorkflowError, match="2 problems") as caught:
        mill.plan()
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT city, map('x', amount) AS m FROM orders", None),  # rows that are only added are not compared
        ("SELECT n, max(map_entries(m)) AS m FROM counted GROUP BY n", None),
        ("SELECT n, m FROM counted", "column m holds a map, and Spark cannot compare maps"),
        ("SELECT n, m FROM (SELECT city, n, m FROM counted) WHERE n > 1", "column m holds a map"),
        ("SELECT city, m FROM (SELECT city, n, m FROM counted) WHERE n > 1", None),  # rows with a key are not compared
    ],
)
def test_a_map_in_rows_that_may_be_deleted_requires_batch(
    spark: SparkSession, tmp_path: Path, query: str, reason: str | None
) -> None:
    wf = shop()
    wf.sql(
        "counted",
        "SELECT city, count(*) AS n, map_from_entries(array(struct(city, count(*)))) AS m FROM orders GROUP BY city",
    )
    wf.sql("tested", query)
    with open_project(tmp_path, wf) as mill:
        mill.apply()
        batch_reason = next(
            t for w in mill.project.workflows for t in w.list_tasks() if t.name == "tested"
        ).batch_reason
    assert (reason in batch_reason) if reason and batch_reason else batch_reason == reason, batch_reason


def test_a_table_over_a_function_is_incremental_from_its_second_run(spark: SparkSession, tmp_path: Path) -> None:
    wf = shop()

    @wf.task
    def large(orders: tm.New) -> tm.Delta:
        return orders.where("amount >= 100")

    wf.sql("totals", "SELECT city, sum(id) AS ids FROM large GROUP BY city")
    with open_project(tmp_path, wf) as mill:
        mill.apply()
        for number, variant in enumerate(("batch", "incremental")):
            rows = [(number, "Oslo", 150.0), (number + 10, "Ghent", 5.0)]
            mill.insert("orders", spark.createDataFrame(rows, "id bigint, city string, amount double"))
            mill.run("large")
            assert run_variants(mill, "totals") == {"totals": variant}
        assert mill.rows("totals") == [{"city": "Oslo", "ids": 1}]


def test_a_function_is_called_only_if_a_declared_table_needs_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    wf = shop()
    called: list[str] = []

    @wf.task
    def alone(orders: tm.New) -> tm.Delta:
        called.append("alone")
        return orders

    @wf.task
    def first(orders: tm.New) -> tm.Delta:
        called.append("first")
        return orders

    @wf.task
    def second(first: tm.New) -> tm.Delta:
        called.append("second")
        return first.select("id")

    wf.sql("seen", "SELECT count(*) AS n FROM second")
    with open_project(tmp_path, wf) as mill:
        mill.apply()
        mill.apply()
    assert called == ["first", "second"]


def test_a_function_that_fails_on_empty_input_reveals_its_columns_with_its_first_block(
    spark: SparkSession, tmp_path: Path
) -> None:
    wf = shop()

    @wf.task
    def first(orders: tm.New) -> tm.Delta:
        city = orders.first()["city"]  # an empty frame has no first row
        return orders.where(f"city = '{city}'")

    wf.sql("totals", "SELECT city, sum(id) AS ids FROM first GROUP BY city")
    with open_project(tmp_path, wf) as mill:
        mill.apply()
        for number, variant in enumerate(("batch", "incremental")):
            mill.insert(
                "orders", spark.createDataFrame([(number, "Oslo", 1.0)], "id bigint, city string, amount double")
            )
            mill.run("first")
            assert run_variants(mill, "totals") == {"totals": variant}
        assert mill.plan() == ()
    with open_project(tmp_path, wf) as again:  # another process reads the same columns
        assert again.plan() == ()
        again.run("totals")


def test_analysis_results_are_reused_without_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wf = shop()
    wf.sql("totals", "SELECT city, sum(id) AS ids FROM orders GROUP BY city")
    with open_project(tmp_path, wf) as mill:
        mill.apply()
        identity = mill.catalog.flows.list()[0].identity

    def no_spark(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("tidemill.app.lazy_imports.start_session", no_spark)
    with open_project(tmp_path, wf) as mill:
        assert mill.plan() == ()
        assert [b.compute_identity() for w in mill.project.workflows for b in w.bindings] == [identity]


def test_the_columns_of_a_batch_table_are_known_to_its_readers(spark: SparkSession, tmp_path: Path) -> None:
    wf = shop()
    wf.sql("sessions", "SELECT count(*) AS n, max(city) AS city FROM orders TABLESAMPLE (100 PERCENT)")
    wf.sql("wide", "SELECT n + 1 AS more FROM sessions")
    with open_project(tmp_path, wf) as mill:
        mill.apply()
        tasks = {t.name: t for w in mill.project.workflows for t in w.list_tasks()}
        assert tasks["sessions"].batch_reason is not None
        assert tasks["wide"].batch_reason is None


def test_a_common_table_expression_may_have_the_name_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """Names are views of a separate session, so that they are invisible to other runs."""
    wf = shop()
    wf.sql("a", "WITH orders AS (SELECT id FROM orders WHERE amount > 1) SELECT id FROM ORDERS")
    with open_project(tmp_path, wf) as mill:
        mill.apply()
        rows: DataFrame = spark.createDataFrame([(1, "x", 0.5), (2, "y", 2.5)], "id bigint, city string, amount double")
        rows.limit(0).createOrReplaceTempView("orders")
        mill.insert("orders", rows)
        mill.run("a")
        assert mill.rows("a") == [{"id": 2}]
        assert spark.table("orders").count() == 0
        spark.catalog.dropTempView("orders")
