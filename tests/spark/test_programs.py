"""Programs whose steps turn out empty."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.expression import expression
from tidemill.algebra.fuse import fused
from tidemill.algebra.operators import Filter, Join, JoinKind, Named, One, Project, Ref, Scan
from tidemill.algebra.program import Output, Program
from tidemill.model.block import Kind
from tidemill.model.change import Append
from tidemill.ports import Target
from tidemill.spark.merge import Keys
from tidemill.spark.small import RunningSmall


class NoScans:
    def __call__(self, scan: Scan, only: Keys | None = None) -> DataFrame:
        raise AssertionError(scan)

    def at_hand(self, scan: Scan) -> bool:
        raise AssertionError(scan)

    def merged(self, scan: Scan) -> bool:
        raise AssertionError(scan)


def test_an_outer_join_keeps_the_columns_of_a_step_that_was_left_out(spark: SparkSession, tmp_path: Path) -> None:
    nothing = Filter(One(), expression("FALSE"))
    left_out = Project(Ref("empty", ("_one",)), (Named("k", expression("_one")),))
    joined = Join(One(), Ref("left out", ("k",)), JoinKind.LEFT, (("_one", "k"),))
    program = Program({"empty": nothing, "left out": left_out}, (Output("t", joined, Append()),))
    target = Target("t", Kind.BASE, str(tmp_path), None, Append())
    schemas = RunningSmall(spark, NoScans(), fused(program), {"t": target}, "tag").run()
    assert schemas["t"].names == ("_one", "k")
    assert [tuple(r) for r in spark.read.parquet(str(tmp_path / "data")).collect()] == [(0, None)]
