"""Comparison of two frames as bags: the same rows, each with the same count, in any order."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType

DIGITS = 9
"""Decimal places to which floating-point numbers must agree: the order of additions affects the others."""

_TIMES = "_times"


def is_same_bag(left: DataFrame, right: DataFrame) -> bool:
    """Compare in one pass: each row counts +1 on the left and -1 on the right, and all sums must be zero."""
    if left.dtypes != right.dtypes:
        return False
    rows = _add_count_column(left, 1).unionAll(_add_count_column(right, -1))
    times = F.sum(_TIMES).alias(_TIMES)
    return rows.groupBy(*left.columns).agg(times).where(F.col(_TIMES) != 0).isEmpty()


def _add_count_column(frame: DataFrame, times: int) -> DataFrame:
    columns = (_to_comparable(f.name, f.dataType).alias(f.name) for f in frame.schema)
    return frame.select(*columns, F.lit(times).alias(_TIMES))


def _to_comparable(name: str, data_type: DataType) -> Column:
    column = F.col(f"`{name}`")
    return F.round(column, DIGITS) if isinstance(data_type, DoubleType | FloatType) else column
