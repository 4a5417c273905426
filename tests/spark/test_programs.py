"""Programs and their operators on Spark, where it takes a special shape to see a difference."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.expression import expression
from tidemill.algebra.fuse import fused
from tidemill.algebra.operators import At, Filter, Join, JoinKind, Named, One, Project, Ref, Scan
from tidemill.algebra.program import Output, Program
from tidemill.model.block import Kind
from tidemill.model.change import Append
from tidemill.ports import Target
from tidemill.spark.compaction import write_files
from tidemill.spark.merge import Keys
from tidemill.spark.operators import Compiler
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


class Stored:
    """Scans of one frame that counts as large."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame

    def __call__(self, scan: Scan, only: Keys | None = None) -> DataFrame:
        return self._frame

    def at_hand(self, scan: Scan) -> bool:
        return False

    def merged(self, scan: Scan) -> bool:
        return False


@pytest.mark.parametrize("types", ["a BIGINT, b STRING", "a STRING, b STRING", "a INT, b DATE", "a DOUBLE, b BIGINT"])
def test_few_keys_are_looked_up_in_a_large_content_null_with_null(spark: SparkSession, types: str) -> None:
    first, second = ("CAST(" + c + " AS " + t.split()[1] + ")" for c, t in zip("xy", types.split(","), strict=True))
    content = "VALUES (1, '2024-01-01'), (1, NULL), (NULL, NULL), (NULL, '2024-01-01'), (3, '2024-01-01') AS t(x, y)"
    if "b BIGINT" in types:
        content = "VALUES (0.0, 7), (-0.0, 7), (NULL, 7), (NULL, NULL), (3, 7) AS t(x, y)"
    rows = spark.sql(f"SELECT {first} AS a, {second} AS b FROM {content}")
    kept = rows.limit(3).localCheckpoint()
    keys = kept.selectExpr("a AS k", "b AS l").union(kept.limit(1).selectExpr("a", "b"))
    scan = Scan("t", ("a", "b"), At.OLD)
    found = Join(scan, Ref("few", ("k", "l")), JoinKind.SEMI, (("a", "k"), ("b", "l")), safe=True)
    compiler = Compiler(spark, Stored(rows), {"few": keys})
    try:
        assert sorted(map(str, compiler.frame(found).collect())) == sorted(map(str, kept.collect()))
    finally:
        compiler.close()


def test_rows_that_come_to_one_task_are_still_several_files(spark: SparkSession, tmp_path: Path) -> None:
    write_files(spark.range(0, 1000, 1, numPartitions=1), str(tmp_path), files=4, rows=1000)
    sizes = [pq.read_metadata(p).num_rows for p in (tmp_path / "data").glob("*.parquet")]
    assert len(sizes) == 3
    assert sum(sizes) == 1000
