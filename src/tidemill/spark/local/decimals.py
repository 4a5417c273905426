"""Decimals on Arrow columns: with Spark's result types, exact to the digit.

Arrow adds and multiplies in 76 digits, so that nothing is lost before a result is rounded to its type; quotients are
computed one by one. A result that does not fit its type is an Arrow error: Spark then computes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Context, Decimal
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, DecimalType, IntegerType, LongType

Column: TypeAlias = "pa.ChunkedArray | pa.Array"

_MAX_PRECISION = 38
_MIN_SCALE = 6
"""Digits behind the point that are preserved if a result has too many digits."""

_QUOTIENT_SCALE = 39
"""Digits behind the point to which Spark divides before it rounds."""

_MAX_ROWS = 10_000
"""Rows up to which division is computed row by row."""

_NAMED = re.compile(r"DECIMAL\((\d+), (\d+)\)")
_EXACT = Context(prec=100)

_WHOLE: dict[DataType, DecimalType] = {IntegerType(): DecimalType(10, 0), LongType(): DecimalType(20, 0)}


class Unsupported(Exception):
    """An expression that only Spark can compute."""


def to_decimal_type(kind: DataType) -> DecimalType:
    """The decimal type of a number in arithmetic with decimals."""
    decimal = kind if isinstance(kind, DecimalType) else _WHOLE.get(kind)
    if decimal is None:
        raise Unsupported(kind.simpleString())
    return decimal


def parse_literal_type(kind: str) -> pa.DataType | None:
    """The type of a decimal literal, from its name; None if it is no decimal."""
    decimal = _NAMED.fullmatch(kind)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else None


def find_common_type(kinds: Iterable[DataType]) -> DecimalType:
    """The type that holds all numbers of these types."""
    shapes = [to_decimal_type(kind) for kind in kinds]
    scale = max(s.scale for s in shapes)
    precision = max(s.precision - s.scale for s in shapes) + scale
    if precision > _MAX_PRECISION:
        raise Unsupported(f"{precision} digits")
    return DecimalType(precision, scale)


def cast_decimal(data: Column, kind: DecimalType) -> Column:
    """Integers and decimals cast to a type, rounded to its scale."""
    if not pa.types.is_decimal(data.type):
        data = data.cast(pa.decimal128(20, 0))
    if data.type.scale > kind.scale:
        wider = data.cast(pa.decimal256(data.type.precision + 1, data.type.scale))  # 9.99 becomes 10.00
        data = pc.round(wider, kind.scale, "half_towards_infinity")
    return data.cast(pa.decimal128(kind.precision, kind.scale))


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


def compute_exact(function: Callable[..., Column], a: Column, b: Column, kind: DecimalType) -> Column:
    """Sums, differences and products."""
    return cast_decimal(function(widen_column(a), widen_column(b)), kind)


def divide_exact(a: Column, b: Column, kind: DecimalType) -> Column:
    """The quotient, truncated after many digits, then rounded to the type."""

    def divide_unscaled(x: int, y: int) -> int:
        return _round_digits(
            _truncate_quotient(x * 10 ** (_QUOTIENT_SCALE - a.type.scale + b.type.scale), y),
            _QUOTIENT_SCALE - kind.scale,
        )

    return _compute_by_row(divide_unscaled, a, b, kind)


def compute_remainder(a: Column, b: Column, kind: DecimalType) -> Column:
    """The remainder, with the sign of the dividend."""

    def subtract_multiples(x: int, y: int) -> int:
        x, y = x * 10 ** (kind.scale - a.type.scale), y * 10 ** (kind.scale - b.type.scale)
        quotient = _truncate_quotient(x, y)
        if abs(quotient) >= 10**_MAX_PRECISION:
            raise Unsupported("a quotient of very many digits")
        return x - y * quotient

    return _compute_by_row(subtract_multiples, a, b, kind)


def widen_column(data: Column) -> Column:
    return data.cast(pa.decimal256(data.type.precision, data.type.scale))


def _compute_by_row(function: Callable[[int, int], int], a: Column, b: Column, kind: DecimalType) -> Column:
    if len(a) > _MAX_ROWS:
        raise Unsupported("many quotients")
    pairs = zip(_to_unscaled(a), _to_unscaled(b), strict=True)
    try:
        results = [None if x is None or y is None else function(x, y) for x, y in pairs]
    except ZeroDivisionError as error:
        raise Unsupported("by zero") from error
    values = [None if v is None else Decimal(v).scaleb(-kind.scale, _EXACT) for v in results]
    return pa.array(values, pa.decimal128(kind.precision, kind.scale))


def _to_unscaled(data: Column) -> list[int | None]:
    return [None if v is None else int(v.scaleb(data.type.scale, _EXACT)) for v in data.to_pylist()]


def _truncate_quotient(x: int, y: int) -> int:
    """The quotient, rounded towards zero."""
    return x // y if (x < 0) == (y < 0) else -(-x // y)


def _round_digits(x: int, digits: int) -> int:
    """The number without its last digits, rounded half away from zero."""
    unit = 10**digits
    return _truncate_quotient(2 * x + (unit if x >= 0 else -unit), 2 * unit)
