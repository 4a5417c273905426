"""Types that Spark gives to the results of decimal arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark.sql.types import DataType, DecimalType, IntegerType, LongType

_MAX_PRECISION = 38
_MIN_SCALE = 6
"""Digits behind the point that are preserved if a result has too many digits."""

_NAMED = re.compile(r"DECIMAL\((\d+), (\d+)\)")

_WHOLE: dict[DataType, DecimalType] = {IntegerType(): DecimalType(10, 0), LongType(): DecimalType(20, 0)}


class Unsupported(Exception):
    """An expression that only Spark can compute."""


def to_decimal_type(kind: DataType) -> DecimalType:
    """The decimal type of a number in arithmetic with decimals."""
    decimal = kind if isinstance(kind, DecimalType) else _WHOLE.get(kind)
    if decimal is None:
        raise Unsupported(kind.simpleString())
    return decimal


def parse_literal_type(kind: str) -> DecimalType | None:
    """The type of a decimal literal, from its name; None if it is no decimal."""
    decimal = _NAMED.fullmatch(kind)
    return DecimalType(int(decimal[1]), int(decimal[2])) if decimal else None


def find_common_type(kinds: Iterable[DataType]) -> DecimalType:
    """The type that holds all numbers of these types."""
    shapes = [to_decimal_type(kind) for kind in kinds]
    scale = max(s.scale for s in shapes)
    precision = max(s.precision - s.scale for s in shapes) + scale
    if precision > _MAX_PRECISION:
        raise Unsupported(f"{precision} digits")
    return DecimalType(precision, scale)


def infer_sum_type(a: DecimalType, b: DecimalType) -> DecimalType:
    scale = max(a.scale, b.scale)
    return _fit_type(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)


def infer_product_type(a: DecimalType, b: DecimalType) -> DecimalType:
    return _fit_type(a.precision + b.precision + 1, a.scale + b.scale)


def infer_quotient_type(a: DecimalType, b: DecimalType) -> DecimalType:
    scale = max(_MIN_SCALE, a.scale + b.precision + 1)
    return _fit_type(a.precision - a.scale + b.scale + scale, scale)


def infer_remainder_type(a: DecimalType, b: DecimalType) -> DecimalType:
    scale = max(a.scale, b.scale)
    return _fit_type(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def infer_total_type(kind: DecimalType) -> DecimalType:
    return DecimalType(min(_MAX_PRECISION, kind.precision + 10), kind.scale)


def _fit_type(precision: int, scale: int) -> DecimalType:
    if precision > _MAX_PRECISION:
        precision, scale = _MAX_PRECISION, max(_MAX_PRECISION - (precision - scale), min(scale, _MIN_SCALE))
    return DecimalType(precision, scale)
