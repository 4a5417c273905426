"""A result that is too large for the driver is computed and written by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill

LIMIT = "spark.driver.maxResultSize"


@pytest.fixture
def small_result_limit(spark: SparkSession) -> Iterator[None]:
    """Limit the results that Spark sends to the driver to 20 kB."""
    conf = spark.sparkContext._jsc.sc().conf()
    before = conf.get(LIMIT, "1g")
    conf.set(LIMIT, "20k")
    yield
    conf.set(LIMIT, before)


@pytest.mark.usefixtures("small_result_limit")
def test_a_run_continues_on_spark_if_its_result_is_too_large(tmp_path: Path) -> None:
    workflow = tm.Workflow("many")
    workflow.input("t", "k int")
    workflow.sql("pairs", "SELECT a.k, repeat(hex(a.k * b.k), 50) AS s FROM t a CROSS JOIN t b")
    with Tidemill(tmp_path, Settings(), Project((workflow.build_spec(),))) as mill:
        mill.apply()
        for _ in range(2):
            mill.insert("t", mill.engine.spark.range(100).selectExpr("CAST(id AS INT) AS k"))
            mill.run("pairs")
        assert mill.read("pairs").count() == 200 * 200
