"""Conversions of types between Spark and the model."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, IntegerType, NullType, StructField, StructType

from tidemill.errors import BadInput
from tidemill.spark.types import create_empty_frame, from_struct


def build_struct(name: str, kind: DataType) -> StructType:
    return StructType([StructField(name, kind)])


@pytest.mark.parametrize("kind", [NullType(), ArrayType(NullType()), build_struct("inner", NullType())])
def test_a_column_of_type_null_is_rejected(kind: DataType) -> None:
    with pytest.raises(BadInput, match=r"column x is NULL without a type; give it one, such as CAST\(NULL AS STRING"):
        from_struct(build_struct("x", kind))


def test_a_column_may_be_named_void() -> None:
    assert from_struct(build_struct("void", build_struct("void", IntegerType()))).names == ("void",)


def test_the_optimizer_sees_that_a_frame_is_empty(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    empty = create_empty_frame(spark, "k int, s struct<`a b`: string>")
    assert empty.schema.simpleString() == "struct<k:int,s:struct<a b:string>>"
    empty.join(spark.range(3), empty["k"] == F.col("id")).explain()
    assert "LocalTableScan <empty>" in capsys.readouterr().out
