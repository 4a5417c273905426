"""Decimals on Arrow columns: in the types that Spark gives them, and digit for digit.

Arrow adds and multiplies in 76 digits, so that nothing is lost before a result is rounded to its type; quotients are
computed one by one. What does not fit into its type is an error of Arrow's: it is for Spark to judge.
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

_MOST = 38
_KEPT = 6
"""Digits behind the point that are given up last where a result has too many."""

_QUOTIENT = 39
"""Digits behind the point to which Spark divides before it rounds."""

_FEW = 10_000
"""So many rows are divided one by one."""

_NAMED = re.compile(r"DECIMAL\((\d+), (\d+)\)")
_EXACT = Context(prec=100)

_WHOLE: dict[DataType, DecimalType] = {IntegerType(): DecimalType(10, 0), LongType(): DecimalType(20, 0)}


class Unsupported(Exception):
    """This is for Spark to compute."""


def to_decimal_type(kind: DataType) -> DecimalType:
    """The type in which a number is computed with beside decimals."""
    found = kind if isinstance(kind, DecimalType) else _WHOLE.get(kind)
    if found is None:
        raise Unsupported(kind.simpleString())
    return found


def parse_literal_type(kind: str) -> pa.DataType | None:
    """The type of a literal that is written with a point, from its name; None if it is none."""
    found = _NAMED.fullmatch(kind)
    return pa.decimal128(int(found[1]), int(found[2])) if found else None


def find_common_type(kinds: Iterable[DataType]) -> DecimalType:
    """The type that holds all numbers of these."""
    shapes = [to_decimal_type(kind) for kind in kinds]
    scale = max(s.scale for s in shapes)
    precision = max(s.precision - s.scale for s in shapes) + scale
    if precision > _MOST:
        raise Unsupported(f"{precision} digits")
    return DecimalType(precision, scale)


def cast_decimal(data: Column, kind: DecimalType) -> Column:
    """Whole numbers and decimals in a type, rounded to its digits behind the point."""
    if not pa.types.is_decimal(data.type):
        data = data.cast(pa.decimal128(20, 0))
    if data.type.scale > kind.scale:
        roomy = data.cast(pa.decimal256(data.type.precision + 1, data.type.scale))  # 9.99 becomes 10.00
        data = pc.round(roomy, kind.scale, "half_towards_infinity")
    return data.cast(pa.decimal128(kind.precision, kind.scale))


def infer_sum_type(a: DecimalType, b: DecimalType) -> DecimalType:
    scale = max(a.scale, b.scale)
    return _fit_type(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)


def infer_product_type(a: DecimalType, b: DecimalType) -> DecimalType:
    return _fit_type(a.precision + b.precision + 1, a.scale + b.scale)


def infer_quotient_type(a: DecimalType, b: DecimalType) -> DecimalType:
    scale = max(_KEPT, a.scale + b.precision + 1)
    return _fit_type(a.precision - a.scale + b.scale + scale, scale)


def infer_remainder_type(a: DecimalType, b: DecimalType) -> DecimalType:
    scale = max(a.scale, b.scale)
    return _fit_type(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def infer_total_type(kind: DecimalType) -> DecimalType:
    return DecimalType(min(_MOST, kind.precision + 10), kind.scale)


def _fit_type(precision: int, scale: int) -> DecimalType:
    if precision > _MOST:
        precision, scale = _MOST, max(_MOST - (precision - scale), min(scale, _KEPT))
    return DecimalType(precision, scale)


def compute_exact(function: Callable[..., Column], a: Column, b: Column, kind: DecimalType) -> Column:
    """Sums, differences and products."""
    return cast_decimal(function(widen_column(a), widen_column(b)), kind)


def divide_exact(a: Column, b: Column, kind: DecimalType) -> Column:
    """Cut off after many digits, then rounded to the type."""

    def divide_unscaled(x: int, y: int) -> int:
        return _round_digits(
            _truncate_quotient(x * 10 ** (_QUOTIENT - a.type.scale + b.type.scale), y), _QUOTIENT - kind.scale
        )

    return _compute_by_row(divide_unscaled, a, b, kind)


def compute_remainder(a: Column, b: Column, kind: DecimalType) -> Column:
    """What is left over has the sign of what is divided."""

    def subtract_multiples(x: int, y: int) -> int:
        x, y = x * 10 ** (kind.scale - a.type.scale), y * 10 ** (kind.scale - b.type.scale)
        often = _truncate_quotient(x, y)
        if abs(often) >= 10**_MOST:
            raise Unsupported("a quotient of very many digits")
        return x - y * often

    return _compute_by_row(subtract_multiples, a, b, kind)


def widen_column(data: Column) -> Column:
    return data.cast(pa.decimal256(data.type.precision, data.type.scale))


def _compute_by_row(of: Callable[[int, int], int], a: Column, b: Column, kind: DecimalType) -> Column:
    if len(a) > _FEW:
        raise Unsupported("many quotients")
    pairs = zip(_to_unscaled(a), _to_unscaled(b), strict=True)
    try:
        found = [None if x is None or y is None else of(x, y) for x, y in pairs]
    except ZeroDivisionError as error:
        raise Unsupported("by zero") from error
    values = [None if v is None else Decimal(v).scaleb(-kind.scale, _EXACT) for v in found]
    return pa.array(values, pa.decimal128(kind.precision, kind.scale))


def _to_unscaled(data: Column) -> list[int | None]:
    return [None if v is None else int(v.scaleb(data.type.scale, _EXACT)) for v in data.to_pylist()]


def _truncate_quotient(x: int, y: int) -> int:
    """A quotient without what follows the point."""
    return x // y if (x < 0) == (y < 0) else -(-x // y)


def _round_digits(x: int, digits: int) -> int:
    """Without so many digits, halves away from zero."""
    unit = 10**digits
    return _truncate_quotient(2 * x + (unit if x >= 0 else -unit), 2 * unit)
