"""The reference: Spark's results from scratch, without code of the product that changes queries."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.oracle.queries import duck, scratch

INDEPENDENT = {"tidemill.model.change", "tidemill.spark.session"}
"""The types of rows, and sessions with their settings."""


@pytest.mark.parametrize("module", [scratch, duck])
def test_a_reference_uses_no_part_of_the_product_that_reads_queries(module: object) -> None:
    tree = ast.parse(Path(str(vars(module)["__file__"])).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert {name for name in imported if name.startswith("tidemill")} <= INDEPENDENT


def test_a_query_with_an_unused_name_is_computed_where_spark_fails_on_it(spark: SparkSession) -> None:
    idle = "(WITH idle AS (SELECT 1 AS one) SELECT k FROM t) a"
    queries = {
        "first": f"SELECT a.k, b.v FROM {idle} JOIN (WITH w AS (SELECT k, v FROM t) SELECT * FROM w) b ON a.k = b.k",
        "second": "WITH w AS (SELECT 1 AS k) SELECT k FROM (WITH w AS (SELECT k FROM first) SELECT k FROM w)",
    }
    with ThreadPoolExecutor(1) as pool:
        results = scratch.from_scratch(
            scratch.open_session(spark), queries, {"t": pa.table({"k": [3], "v": [4]})}, pool
        )
    assert results["first"] == scratch.Result("struct<k:bigint,v:bigint>", [{"k": 3, "v": 4}])
    assert results["second"].rows == [{"k": 3}]
