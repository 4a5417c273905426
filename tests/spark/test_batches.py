"""Small blocks read on the driver, compared with the same files read by Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidemill.algebra.operators import ORDER, BlockScan
from tidemill.local.batch import Batch, build_arrow_schema
from tidemill.local.spark_types import parse_ddl
from tidemill.model.block import Block, BlockKind, DataFile
from tidemill.model.schema import Schema
from tidemill.ports.engine import EngineLimits
from tidemill.spark import batches
from tidemill.spark.local_work import LocalWork

TYPES = {
    "`a.b` BOOLEAN": "true",
    "tiny TINYINT": "7Y",
    "small SMALLINT": "-7S",
    "whole INT": "70000",
    "big BIGINT": "9000000000",
    "single FLOAT": "CAST('NaN' AS FLOAT)",
    "twice DOUBLE": "CAST('-0.0' AS DOUBLE)",
    "money DECIMAL(12, 2)": "12.34BD",
    "huge DECIMAL(38, 10)": "1234567890123456789.0123456789BD",
    "text STRING": "'grüße'",
    "raw BINARY": "X'00FF10'",
    "day DATE": "DATE'1582-10-04'",
    "instant TIMESTAMP": "TIMESTAMP'1969-12-31 23:59:59.123456+09:00'",
    "wall TIMESTAMP_NTZ": "TIMESTAMP_NTZ'2024-03-10 02:30:00'",
    "many ARRAY<INT>": "array(1, NULL, 3)",
    "box STRUCT<x: INT, y: ARRAY<STRING>>": "named_struct('x', 1, 'y', array('a', NULL))",
    "lookup MAP<STRING, BIGINT>": "map('a', 1L, 'b', NULL)",
}


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> list[str]:
    """A row with a value of every type and a row of NULLs, in two files."""
    columns = [declared.split(" ", 1) for declared in TYPES]
    for number, values in enumerate((TYPES.values(), ["NULL"] * len(TYPES))):
        items = [f"CAST({v} AS {kind}) AS {name}" for (name, kind), v in zip(columns, values, strict=True)]
        spark.sql(f"SELECT {', '.join(items)}").coalesce(1).write.parquet(str(tmp_path / str(number)))
    return [str(next((tmp_path / str(number)).glob("*.parquet"))) for number in range(2)]


WORK = LocalWork(str, EngineLimits())


def read_blocks(blocks: list[list[str]], ddl: str, *, numbered: bool = False) -> Batch | None:
    """The rows of blocks with these files, read on the driver."""
    schema = Schema.from_ddl(ddl)
    described = tuple(
        Block(i, "c", i, BlockKind.BASE, schema, files=tuple(DataFile(p, 1, 1) for p in paths))
        for i, paths in enumerate(blocks)
    )
    names = (*schema.names, ORDER) if numbered else schema.names
    return WORK.read_small_scan(BlockScan(tuple(p for ps in blocks for p in ps), names, schema, schema, described))


def test_every_type_is_read_as_spark_reads_it(spark: SparkSession, files: list[str]) -> None:
    ddl = ", ".join(TYPES)
    rows = read_blocks([files], ddl)
    expected = spark.read.schema(ddl).parquet(*files)
    assert rows is not None
    frame = batches.create_frame(spark, rows.table, rows.struct)
    assert frame.schema == expected.schema
    assert sorted(map(str, frame.collect())) == sorted(map(str, expected.collect()))


def test_rows_are_numbered_by_their_block(files: list[str]) -> None:
    rows = read_blocks([[files[1]], [files[0]]], "`a.b` BOOLEAN", numbered=True)
    assert rows is not None
    assert sorted((tuple(r.values()) for r in rows.table.to_pylist()), key=str) == [(None, 1), (True, 2)]


def test_files_that_the_driver_cannot_read_are_passed_to_spark(tmp_path: Path) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 no more")
    assert read_blocks([["s3a://bucket/file.parquet"]], "a INT") is None
    assert read_blocks([[str(broken)]], "a INT") is None


def test_a_table_without_chunks_becomes_an_empty_local_relation(spark: SparkSession, tmp_path: Path) -> None:
    struct = parse_ddl("a ARRAY<INT>, at TIMESTAMP, s STRUCT<x: INT>")
    nothing = pa.table([pa.chunked_array([], f.type) for f in build_arrow_schema(struct)], struct.names)
    frame = batches.LocalRelations(spark, tmp_path, EngineLimits()).create_frame(Batch(nothing, struct))
    assert (frame.collect(), frame.schema) == ([], struct)


def test_an_empty_chunk_does_not_end_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"a": pa.chunked_array([[1], [], [2, 3]], pa.int32()), "b": pa.array([4, 5, 6], pa.int32())})
    assert [batch.num_rows for batch in rows.to_batches()] == [1, 0, 2]
    frame = batches.LocalRelations(spark, tmp_path, EngineLimits()).create_frame(Batch(rows, parse_ddl("a INT, b INT")))
    assert [tuple(r) for r in frame.collect()] == [(1, 4), (2, 5), (3, 6)]
    assert batches.create_frame(spark, rows).toArrow().to_pylist() == rows.to_pylist()
