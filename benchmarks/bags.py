"""Whether two frames hold the same rows, each as often, in whatever order."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType

DIGITS = 9
"""Decimal places to which floating-point numbers must agree: the order of additions may change what follows."""

_TIMES = "_times"


def same_bag(left: DataFrame, right: DataFrame) -> bool:
    """In one pass over both: each row counts +1 on the left and -1 on the right, and everything must cancel out."""
    if left.dtypes != right.dtypes:
        return False
    counted = _counted(left, 1).unionAll(_counted(right, -1))
    times = F.sum(_TIMES).alias(_TIMES)
    return counted.groupBy(*left.columns).agg(times).where(F.col(_TIMES) != 0).isEmpty()


def _counted(frame: DataFrame, times: int) -> DataFrame:
    columns = (_comparable(f.name, f.dataType).alias(f.name) for f in frame.schema)
    return frame.select(*columns, F.lit(times).alias(_TIMES))


def _comparable(name: str, data_type: DataType) -> Column:
    column = F.col(f"`{name}`")
    return F.round(column, DIGITS) if isinstance(data_type, DoubleType | FloatType) else column
