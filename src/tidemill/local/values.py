"""Values of expressions as SQL text with Spark's type, and the types that Spark gives to their combinations."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import types as T

from tidemill.algebra.typing import MAX_PRECISION, MIN_SCALE, fit_shape

INTEGERS = (T.IntegerType(), T.LongType())
NUMBERS = (*INTEGERS, T.DoubleType())
"""Numeric types, each of which widens to those after it."""

_COMPARABLE = (
    *(T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType, T.FloatType, T.DoubleType),
    *(T.BooleanType, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType),
)


_WHOLE: dict[T.DataType, T.DecimalType] = {T.IntegerType(): T.DecimalType(10, 0), T.LongType(): T.DecimalType(20, 0)}


class Unsupported(Exception):
    """An expression that only Spark can compute."""


@dataclass(frozen=True, slots=True)
class SqlValue:
    """An expression in the engine's SQL, and the type that Spark gives it."""

    text: str
    type: T.DataType


def require_comparable(value: SqlValue) -> SqlValue:
    """The value, if the engine and Spark agree on equality and order of its type, unlike nested or collated values."""
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
    shapes = [to_decimal_type(kind) for kind in distinct]
    scale = max(s.scale for s in shapes)
    precision = max(s.precision - s.scale for s in shapes) + scale
    if precision > MAX_PRECISION:
        raise Unsupported(f"{precision} digits")
    return T.DecimalType(precision, scale)


def to_decimal_type(kind: T.DataType) -> T.DecimalType:
    """The decimal type of a number in arithmetic with decimals."""
    decimal = kind if isinstance(kind, T.DecimalType) else _WHOLE.get(kind)
    if decimal is None:
        raise Unsupported(kind.simpleString())
    return decimal


def infer_decimal_type(sign: str, a: T.DecimalType, b: T.DecimalType) -> T.DecimalType:
    """The type that Spark gives to the result of decimal arithmetic."""
    scale, digits = max(a.scale, b.scale), (a.precision - a.scale, b.precision - b.scale)
    match sign:
        case "*":
            return T.DecimalType(*fit_shape(a.precision + b.precision + 1, a.scale + b.scale))
        case "/":
            scale = max(MIN_SCALE, a.scale + b.precision + 1)
            return T.DecimalType(*fit_shape(digits[0] + b.scale + scale, scale))
        case "%":
            return T.DecimalType(*fit_shape(min(digits) + scale, scale))
        case _:
            return T.DecimalType(*fit_shape(max(digits) + scale + 1, scale))
