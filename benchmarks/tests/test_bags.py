"""Comparison of frames as bags of rows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from benchmarks.bags import is_same_bag
from pyspark.sql import SparkSession

SCHEMA = "k int, x double, d decimal(10, 2)"
ROW = (1, 0.5, Decimal("1.00"))
Rows = list[tuple[Any, ...]]


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ([], [], True),
        ([ROW, (2, None, None)], [(2, None, None), ROW], True),
        ([ROW], [ROW, ROW], False),
        ([ROW, ROW], [ROW], False),
        ([(1, 0.5 + 1e-12, Decimal("1.00"))], [ROW], True),
        ([(1, 0.5 + 1e-7, Decimal("1.00"))], [ROW], False),
        ([(1, 0.5, Decimal("1.01"))], [ROW], False),
        ([(None, 0.5, Decimal("1.00"))], [ROW], False),
    ],
)
def test_rows_are_compared_with_their_counts(spark: SparkSession, left: Rows, right: Rows, same: bool) -> None:
    assert is_same_bag(spark.createDataFrame(left, SCHEMA), spark.createDataFrame(right, SCHEMA)) is same


def test_frames_of_other_types_differ(spark: SparkSession) -> None:
    assert not is_same_bag(spark.sql("SELECT 1 AS k"), spark.sql("SELECT 1L AS k"))
