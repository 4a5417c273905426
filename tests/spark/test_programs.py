"""Programs and their operators on Spark, where it takes a special shape to see a difference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.expression import expression
from tidemill.algebra.fuse import fused
from tidemill.algebra.operators import Filter, Join, JoinKind, Named, One, Operator, Project, Ref, Scan
from tidemill.algebra.program import Output, Program
from tidemill.model.block import Kind
from tidemill.model.change import Append
from tidemill.ports.engine import Target
from tidemill.spark.compaction import write_files
from tidemill.spark.local.batches import Hand, Held
from tidemill.spark.merge import Keys
from tidemill.spark.programs import Running
from tidemill.spark.small_programs import RunningSmall


class NoScans:
    def __call__(self, scan: Scan, only: Keys | None = None) -> DataFrame:
        raise AssertionError(scan)

    def at_hand(self, scan: Scan) -> bool:
        raise AssertionError(scan)

    def here(self, scan: Scan) -> Held | None:
        raise AssertionError(scan)

    def found(self, scan: Scan, keys: pa.Table, on: Sequence[tuple[str, str]]) -> Held | None:
        raise AssertionError(scan)


def test_an_outer_join_keeps_the_columns_of_a_step_that_was_left_out(spark: SparkSession, tmp_path: Path) -> None:
    nothing = Filter(One(), expression("FALSE"))
    left_out = Project(Ref("empty", ("_one",)), (Named("k", expression("_one")),))
    joined = Join(One(), Ref("left out", ("k",)), JoinKind.LEFT, (("_one", "k"),))
    program = Program({"empty": nothing, "left out": left_out}, (Output("t", joined, Append()),))
    target = Target("t", Kind.BASE, str(tmp_path), None, Append())
    hand = Hand(spark, tmp_path / "_steps")
    schemas = RunningSmall(spark, NoScans(), fused(program), {"t": target}, hand, "tag").run()
    assert schemas["t"].names == ("_one", "k")
    assert [tuple(r) for r in spark.read.parquet(str(tmp_path / "data")).collect()] == [(0, None)]


def test_steps_that_read_others_twice_are_not_described_ever_again(spark: SparkSession, tmp_path: Path) -> None:
    """What Spark tells its listeners of the last query would name the first step 16 777 216 times."""
    steps: dict[str, Operator] = {"0": One()}
    for step in range(1, 25):
        before = Ref(str(step - 1), ("_one",))
        steps[str(step)] = Join(before, before, JoinKind.SEMI, (("_one", "_one"),))
    program = Program(steps, (Output("t", Ref("24", ("_one",)), Append()),))
    target = Target("t", Kind.BASE, str(tmp_path), None, Append())
    Running(spark, NoScans(), program, {"t": target}).run()
    assert [tuple(r) for r in spark.read.parquet(str(tmp_path / "data")).collect()] == [(0,)]


def test_rows_that_come_to_one_task_are_still_several_files(spark: SparkSession, tmp_path: Path) -> None:
    write_files(spark.range(0, 1000, 1, numPartitions=1), str(tmp_path), files=4, rows=1000)
    sizes = [pq.read_metadata(p).num_rows for p in (tmp_path / "data").glob("*.parquet")]
    assert len(sizes) == 3
    assert sum(sizes) == 1000
