"""Programs and operators on Spark whose special shapes once gave wrong results or plans."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.expression import to_expression
from tidemill.algebra.operators import (
    BlockScan,
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
from tidemill.algebra.program import Program
from tidemill.algebra.rewrite.fuse_steps import fuse_steps
from tidemill.model.block import BlockKind
from tidemill.model.change import Append
from tidemill.model.schema import Schema
from tidemill.ports.engine import EngineLimits, WriteTarget
from tidemill.runtime.runs.log import RunLog
from tidemill.spark.compaction import write_files
from tidemill.spark.local_work import LocalWork
from tidemill.spark.operators import OperatorCompiler
from tidemill.spark.program_runner import ProgramRunner


def run_program(spark: SparkSession, program: Program, directory: Path, *, local: bool) -> Mapping[str, Schema]:
    targets = {name: WriteTarget(name, BlockKind.BASE, str(directory), None, Append()) for name in program.outputs}
    return ProgramRunner(
        spark,
        lambda steps: OperatorCompiler(spark, refuse_scan, steps),
        fuse_steps(program),
        targets,
        LocalWork(str, EngineLimits(is_local=local)),
        "tag",
        RunLog(),
        is_collected=local,
    ).run()


def refuse_scan(scan: Scan | BlockScan) -> DataFrame:
    raise AssertionError(scan)


@pytest.mark.parametrize("local", [True, False], ids=["local", "spark"])
def test_an_outer_join_keeps_the_columns_of_a_skipped_step(spark: SparkSession, tmp_path: Path, local: bool) -> None:
    nothing = Filter(SingleRow(), to_expression("FALSE"))
    skipped = Projection(StepReference("empty", ("_one",)), (NamedExpression("k", to_expression("_one")),))
    join = Join(SingleRow(), StepReference("skipped", ("k",)), JoinKind.LEFT, (("_one", "k"),))
    program = Program({"empty": nothing, "skipped": skipped}, {"t": join})
    schemas = run_program(spark, program, tmp_path, local=local)
    assert schemas["t"].names == ("_one", "k")
    assert [tuple(r) for r in spark.read.parquet(str(tmp_path / "data")).collect()] == [(0, None)]


def test_steps_that_read_others_twice_do_not_repeat_their_plans(spark: SparkSession, tmp_path: Path) -> None:
    """Otherwise Spark's description of the last query would name the first step 16 777 216 times."""
    steps: dict[str, Operator] = {"0": SingleRow()}
    for step in range(1, 25):
        before = StepReference(str(step - 1), ("_one",))
        steps[str(step)] = Join(before, before, JoinKind.SEMI, (("_one", "_one"),))
    program = Program(steps, {"t": StepReference("24", ("_one",))})
    cached = set(spark.sparkContext._jsc.getPersistentRDDs())
    run_program(spark, program, tmp_path, local=False)
    assert [tuple(r) for r in spark.read.parquet(str(tmp_path / "data")).collect()] == [(0,)]
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) <= cached


def test_rows_of_one_partition_are_written_to_several_files(spark: SparkSession, tmp_path: Path) -> None:
    write_files(spark.range(0, 1000, 1, numPartitions=1), str(tmp_path), files=4, rows=1000)
    sizes = [pq.read_metadata(p).num_rows for p in (tmp_path / "data").glob("*.parquet")]
    assert len(sizes) == 3
    assert sum(sizes) == 1000
