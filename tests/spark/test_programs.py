"""Programs and operators on Spark whose special shapes once gave wrong results or plans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.expression import to_expression
from tidemill.algebra.fuse import fuse_steps
from tidemill.algebra.operators import (
    Filter,
    Join,
    JoinKind,
    NamedExpression,
    Operator,
    Projection,
    Scan,
    SingleRow,
    StepReference,
)
from tidemill.algebra.program import Program, ProgramOutput
from tidemill.model.block import BlockKind
from tidemill.model.change import Append
from tidemill.ports.engine import WriteTarget
from tidemill.spark.compaction import write_files
from tidemill.spark.local.batches import LocalBatch, LocalRelations
from tidemill.spark.merge import LookupKeys
from tidemill.spark.programs import ProgramRunner
from tidemill.spark.small_programs import SmallProgramRunner


class NoScans:
    def __call__(self, scan: Scan, only: LookupKeys | None = None) -> DataFrame:
        raise AssertionError(scan)

    def is_local(self, scan: Scan) -> bool:
        raise AssertionError(scan)

    def read_local(self, scan: Scan) -> LocalBatch | None:
        raise AssertionError(scan)

    def find_by_keys(self, scan: Scan, keys: pa.Table, on: Sequence[tuple[str, str]]) -> LocalBatch | None:
        raise AssertionError(scan)


def test_an_outer_join_keeps_the_columns_of_a_skipped_step(spark: SparkSession, tmp_path: Path) -> None:
    nothing = Filter(SingleRow(), to_expression("FALSE"))
    skipped = Projection(StepReference("empty", ("_one",)), (NamedExpression("k", to_expression("_one")),))
    join = Join(SingleRow(), StepReference("skipped", ("k",)), JoinKind.LEFT, (("_one", "k"),))
    program = Program({"empty": nothing, "skipped": skipped}, (ProgramOutput("t", join, Append()),))
    target = WriteTarget("t", BlockKind.BASE, str(tmp_path), None, Append())
    relations = LocalRelations(spark, tmp_path / "_steps")
    schemas = SmallProgramRunner(spark, NoScans(), fuse_steps(program), {"t": target}, relations, "tag").run()
    assert schemas["t"].names == ("_one", "k")
    assert [tuple(r) for r in spark.read.parquet(str(tmp_path / "data")).collect()] == [(0, None)]


def test_descriptions_of_steps_that_read_others_twice_stay_small(spark: SparkSession, tmp_path: Path) -> None:
    """Otherwise Spark's description of the last query would name the first step 16 777 216 times."""
    steps: dict[str, Operator] = {"0": SingleRow()}
    for step in range(1, 25):
        before = StepReference(str(step - 1), ("_one",))
        steps[str(step)] = Join(before, before, JoinKind.SEMI, (("_one", "_one"),))
    program = Program(steps, (ProgramOutput("t", StepReference("24", ("_one",)), Append()),))
    target = WriteTarget("t", BlockKind.BASE, str(tmp_path), None, Append())
    ProgramRunner(spark, NoScans(), program, {"t": target}).run()
    assert [tuple(r) for r in spark.read.parquet(str(tmp_path / "data")).collect()] == [(0,)]


def test_rows_of_one_partition_are_written_to_several_files(spark: SparkSession, tmp_path: Path) -> None:
    write_files(spark.range(0, 1000, 1, numPartitions=1), str(tmp_path), files=4, rows=1000)
    sizes = [pq.read_metadata(p).num_rows for p in (tmp_path / "data").glob("*.parquet")]
    assert len(sizes) == 3
    assert sum(sizes) == 1000
