"""The plans of a program's steps stay small."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.expression import build_column, to_expression
from tidemill.algebra.operators import Join, JoinKind, NamedExpression, Operator, Projection, Scan, StepReference
from tidemill.algebra.program import Program
from tidemill.spark.merge import LookupKeys
from tidemill.spark.programs import ProgramRunner


class RangeSource:
    """Five numbers as the rows of every scan."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __call__(self, scan: Scan, lookup: LookupKeys | None = None) -> DataFrame:
        return self._spark.range(5)

    def is_local(self, scan: Scan) -> bool:
        return False

    def read_local(self, scan: Scan) -> None:
        return None

    def find_by_keys(self, scan: Scan, keys: pa.Table, on: Sequence[tuple[str, str]]) -> None:
        return None


def test_the_plan_of_a_step_does_not_contain_the_plans_of_earlier_steps(spark: SparkSession) -> None:
    """Each of twelve steps joins the previous one with itself: repeated, the last would have 4 096 scans."""
    steps: dict[str, Operator] = {"s0": Scan("t", ("id",))}
    for number in range(1, 13):
        previous = StepReference(f"s{number - 1}", ("id",))
        other = Projection(previous, (NamedExpression("other", build_column("id")),))
        joined = Join(previous, other, JoinKind.INNER, (("id", "other"),))
        steps[f"s{number}"] = Projection(joined, (NamedExpression("id", to_expression("id + other - id")),))
    runner = ProgramRunner(spark, RangeSource(spark), Program(steps, ()), {})
    cached = spark.sparkContext._jsc.getPersistentRDDs().size()
    runner.run()
    assert runner.steps["s12"]._jdf.queryExecution().logical().children().isEmpty()
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == cached
