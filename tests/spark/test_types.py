"""Types between Spark and the model."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, DataType, IntegerType, NullType, StructField, StructType

from tidemill.errors import BadInput
from tidemill.spark.types import from_struct


def of(name: str, kind: DataType) -> StructType:
    return StructType([StructField(name, kind)])


@pytest.mark.parametrize("kind", [NullType(), ArrayType(NullType()), of("inner", NullType())])
def test_null_without_a_type_is_no_column(kind: DataType) -> None:
    with pytest.raises(BadInput, match=r"column x is NULL without a type; give it one, such as CAST\(NULL AS STRING"):
        from_struct(of("x", kind))


def test_columns_may_be_called_so() -> None:
    assert from_struct(of("void", of("void", IntegerType()))).names == ("void",)
