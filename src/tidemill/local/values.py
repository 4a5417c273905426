"""Values of expressions as SQL text with Spark's type, and the types that Spark gives to their combinations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import types as T

from tidemill.local import decimals

Unsupported = decimals.Unsupported

INTEGERS = (T.IntegerType(), T.LongType())
NUMBERS = (*INTEGERS, T.DoubleType())
"""Numeric types, each of which widens to those after it."""

_COMPARABLE = (
    *(T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType, T.FloatType, T.DoubleType),
    *(T.BooleanType, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType),
)


@dataclass(frozen=True, slots=True)
class SqlValue:
    """An expression in the engine's SQL, and the type that Spark gives it."""

    text: str
    type: T.DataType


def require_comparable(value: SqlValue) -> SqlValue:
    """The value, if the engine and Spark agree on equality and order of its type: not nested values, nor strings that
    are padded or have a collation.
    """
    if not isinstance(value.type, _COMPARABLE) and value.type != T.StringType():
        raise Unsupported(f"comparison of {value.type.simpleString()}")
    return value


def require_type(value: SqlValue, *types: T.DataType) -> SqlValue:
    if value.type not in types:
        raise Unsupported(f"{value.type.simpleString()} instead of {types[0].simpleString()}")
    return value


def find_common_type(types: Iterable[T.DataType]) -> T.DataType:
    """The type that all of these have or widen to."""
    distinct = {*types} - {T.NullType()}
    if len(distinct) < 2:
        return next(iter(distinct), T.NullType())
    if distinct <= {*NUMBERS}:
        return max(distinct, key=NUMBERS.index)
    return decimals.find_common_type(distinct)
