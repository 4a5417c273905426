"""Type widening: which types of Parquet columns convert to which Spark types without loss."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from tidemill.encoding.arrow_types import INSTANTS, list_struct_fields, parse_decimal_shape, to_arrow_type

_BITS = {exp.DType.TINYINT: 8, exp.DType.SMALLINT: 16, exp.DType.INT: 32, exp.DType.BIGINT: 64}
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


def can_widen(found: pa.DataType, kind: exp.DataType) -> bool:
    """Whether every value of type `found` is also one of `kind`.

    Two exceptions are checked by value: years outside Spark's range, and nanoseconds, which pandas writes by default
    and which are mostly zero.
    """
    if pt.is_null(found):
        return True
    if pt.is_dictionary(found):
        return can_widen(found.value_type, kind)
    return _RULES[kind.this](found, kind) and _can_cast(found, kind)


def _can_cast(found: pa.DataType, kind: exp.DataType) -> bool:
    try:
        pa.array([], found).cast(to_arrow_type(kind))
    except pa.ArrowException:
        return False
    return True


def _can_be_boolean(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_boolean(found))


def _can_be_integer(found: pa.DataType, kind: exp.DataType) -> bool:
    bits = _BITS[kind.this]
    if pt.is_signed_integer(found):
        return bool(found.bit_width <= bits)
    return bool(pt.is_unsigned_integer(found) and found.bit_width < bits)


def _can_be_float(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_float16(found) or pt.is_float32(found) or (pt.is_integer(found) and found.bit_width <= 16))


def _can_be_double(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_floating(found) or (pt.is_integer(found) and found.bit_width <= 32))


def _can_be_decimal(found: pa.DataType, kind: exp.DataType) -> bool:
    precision, scale = parse_decimal_shape(kind)
    if pt.is_integer(found):
        return _DIGITS[found.bit_width] <= precision - scale
    return bool(pt.is_decimal(found) and found.scale <= scale and found.precision - found.scale <= precision - scale)


def _can_be_text(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_string(found) or pt.is_large_string(found) or pt.is_string_view(found))


def _can_be_binary(found: pa.DataType, _: exp.DataType) -> bool:
    tests = (pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary, pt.is_binary_view)
    return any(test(found) for test in tests)


def _can_be_date(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_date(found))


def _can_be_instant(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_timestamp(found))


def _can_be_wall_clock(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_timestamp(found) and found.tz is None)


def _can_be_array(found: pa.DataType, kind: exp.DataType) -> bool:
    tests = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list)
    return any(test(found) for test in tests) and can_widen(found.value_type, kind.expressions[0])


def _can_be_map(found: pa.DataType, kind: exp.DataType) -> bool:
    key, value = kind.expressions
    return bool(pt.is_map(found)) and can_widen(found.key_type, key) and can_widen(found.item_type, value)


def _can_be_struct(found: pa.DataType, kind: exp.DataType) -> bool:
    fields = list(list_struct_fields(kind))
    if not pt.is_struct(found) or sorted(f.name for f in found) != sorted(f.name for f in fields):
        return False
    return all(can_widen(found.field(f.name).type, f.data_type) for f in fields)


_RULES: dict[exp.DType, Callable[[pa.DataType, exp.DataType], bool]] = {
    exp.DType.BOOLEAN: _can_be_boolean,
    **dict.fromkeys(_BITS, _can_be_integer),
    exp.DType.FLOAT: _can_be_float,
    exp.DType.DOUBLE: _can_be_double,
    exp.DType.DECIMAL: _can_be_decimal,
    exp.DType.TEXT: _can_be_text,
    exp.DType.BINARY: _can_be_binary,
    exp.DType.DATE: _can_be_date,
    **dict.fromkeys(INSTANTS, _can_be_instant),
    exp.DType.TIMESTAMPNTZ: _can_be_wall_clock,
    exp.DType.ARRAY: _can_be_array,
    exp.DType.MAP: _can_be_map,
    exp.DType.STRUCT: _can_be_struct,
}
