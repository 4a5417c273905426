"""A result that is too large for the driver is computed and written by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidemill as tm
from tidemill.algebra.operators import Join, JoinKind, Operator, Scan
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.spark.local import operators
from tidemill.spark.local.batches import LocalBatch
from tidemill.spark.local.operators import LocalExecutor
from tidemill.spark.types import parse_ddl

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
def test_a_run_continues_on_spark_if_its_result_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "_MAX_TESTED_PAIRS", 0)
    workflow = tm.Workflow("many")
    workflow.input("t", "k int")
    workflow.sql("pairs", "SELECT a.k, repeat(hex(a.k * b.k), 50) AS s FROM t a CROSS JOIN t b")
    with Tidemill(tmp_path, Settings(), Project((workflow.build_spec(),))) as mill:
        mill.apply()
        for _ in range(2):
            mill.insert("t", mill.engine.spark.range(100).selectExpr("CAST(id AS INT) AS k"))
            mill.run("pairs")
        assert mill.read("pairs").count() == 200 * 200


@pytest.mark.usefixtures("spark")  # parses types as Spark does
def test_join_pairs_are_counted_before_they_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "_MAX_KEY_PAIRS", 20)
    rows = {"a": [1, 1, 1, 2, 3, None], "b": [1, 1, 1, 2, 4, None]}

    def join(times: int) -> LocalBatch | None:
        def leaf(op: Operator) -> LocalBatch | None:
            if not isinstance(op, Scan):
                return None
            name = op.columns[0]
            return LocalBatch(pa.table({name: pa.array(rows[name] * times, pa.int32())}), parse_ddl(f"{name} INT"))

        return LocalExecutor(leaf)(Join(Scan("a", ("a",)), Scan("b", ("b",)), JoinKind.INNER, (("a", "b"),)))

    assert (batch := join(1)) is not None
    assert batch.table.num_rows == 10
    assert join(2) is None  # 40 pairs
