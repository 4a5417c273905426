"""Which types of Parquet columns can be taken for which Spark types without losing anything."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from tidemill.encoding.arrow_types import INSTANTS, arrow_type, decimal_shape, struct_fields

_BITS = {exp.DType.TINYINT: 8, exp.DType.SMALLINT: 16, exp.DType.INT: 32, exp.DType.BIGINT: 64}
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


def widens(found: pa.DataType, kind: exp.DataType) -> bool:
    """Whether every value of type `found` is one of `kind`.

    Two exceptions are judged by value: years beyond Spark's, and nanoseconds, which pandas writes wherever
    it can and which are mostly zero.
    """
    if pt.is_null(found):
        return True
    if pt.is_dictionary(found):
        return widens(found.value_type, kind)
    return _RULES[kind.this](found, kind) and _castable(found, kind)


def _castable(found: pa.DataType, kind: exp.DataType) -> bool:
    try:
        pa.array([], found).cast(arrow_type(kind))
    except pa.ArrowException:
        return False
    return True


def _boolean(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_boolean(found))


def _integer(found: pa.DataType, kind: exp.DataType) -> bool:
    room = _BITS[kind.this]
    if pt.is_signed_integer(found):
        return bool(found.bit_width <= room)
    return bool(pt.is_unsigned_integer(found) and found.bit_width < room)


def _float(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_float16(found) or pt.is_float32(found) or (pt.is_integer(found) and found.bit_width <= 16))


def _double(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_floating(found) or (pt.is_integer(found) and found.bit_width <= 32))


def _decimal(found: pa.DataType, kind: exp.DataType) -> bool:
    precision, scale = decimal_shape(kind)
    if pt.is_integer(found):
        return _DIGITS[found.bit_width] <= precision - scale
    return bool(pt.is_decimal(found) and found.scale <= scale and found.precision - found.scale <= precision - scale)


def _text(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_string(found) or pt.is_large_string(found) or pt.is_string_view(found))


def _binary(found: pa.DataType, _: exp.DataType) -> bool:
    tests = (pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary, pt.is_binary_view)
    return any(test(found) for test in tests)


def _date(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_date(found))


def _instant(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_timestamp(found))


def _wall_clock(found: pa.DataType, _: exp.DataType) -> bool:
    return bool(pt.is_timestamp(found) and found.tz is None)


def _array(found: pa.DataType, kind: exp.DataType) -> bool:
    tests = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list)
    return any(test(found) for test in tests) and widens(found.value_type, kind.expressions[0])


def _map(found: pa.DataType, kind: exp.DataType) -> bool:
    key, value = kind.expressions
    return bool(pt.is_map(found)) and widens(found.key_type, key) and widens(found.item_type, value)


def _struct(found: pa.DataType, kind: exp.DataType) -> bool:
    fields = list(struct_fields(kind))
    if not pt.is_struct(found) or sorted(f.name for f in found) != sorted(f.name for f in fields):
        return False
    return all(widens(found.field(f.name).type, f.parsed) for f in fields)


_RULES: dict[exp.DType, Callable[[pa.DataType, exp.DataType], bool]] = {
    exp.DType.BOOLEAN: _boolean,
    **dict.fromkeys(_BITS, _integer),
    exp.DType.FLOAT: _float,
    exp.DType.DOUBLE: _double,
    exp.DType.DECIMAL: _decimal,
    exp.DType.TEXT: _text,
    exp.DType.BINARY: _binary,
    exp.DType.DATE: _date,
    **dict.fromkeys(INSTANTS, _instant),
    exp.DType.TIMESTAMPNTZ: _wall_clock,
    exp.DType.ARRAY: _array,
    exp.DType.MAP: _map,
    exp.DType.STRUCT: _struct,
}
