"""Constraints of Spark on values that Arrow's types lack: years 1 to 9999, and NOT NULL inside structs."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tidemill.encoding.arrow_types import INSTANTS, list_struct_fields
from tidemill.intake.cell_columns import InvalidCell

_DAYS = (-719_162, 2_932_896)  # 0001-01-01 and 9999-12-31
_MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)


def validate_ranges(array: pa.Array, kind: exp.DataType) -> pa.Array:
    """The array itself; raises `InvalidCell` if a value in it, at any depth, cannot be stored as `kind`."""
    match kind.this:
        case exp.DType.DATE:
            _check_range(array.cast(pa.int32()), *_DAYS)
        case exp.DType.TIMESTAMPNTZ:
            _check_range(array.cast(pa.int64()), *_MICROSECONDS)
        case instant if instant in INSTANTS:
            _check_range(array.cast(pa.int64()), *_MICROSECONDS)
        case exp.DType.ARRAY:
            validate_ranges(array.flatten(), kind.expressions[0])
        case exp.DType.MAP:
            _validate_map(array, *kind.expressions)
        case exp.DType.STRUCT:
            _validate_struct(array, kind)
    return array


def _check_range(numbers: pa.Array, lowest: int, highest: int) -> None:
    extremes = pc.min_max(numbers).as_py()
    if extremes["min"] is not None and not (lowest <= extremes["min"] and extremes["max"] <= highest):
        raise InvalidCell("it is out of range")


def _validate_map(array: pa.Array, key: exp.DataType, value: exp.DataType) -> None:
    if len(array):
        begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        validate_ranges(array.keys.slice(begin, end - begin), key)
        validate_ranges(array.items.slice(begin, end - begin), value)


def _validate_struct(array: pa.Array, kind: exp.DataType) -> None:
    for index, field in enumerate(list_struct_fields(kind)):
        inner = pc.struct_field(array, [index])
        if not field.nullable and pc.any(pc.and_(array.is_valid(), inner.is_null())).as_py():
            raise InvalidCell(f"its field {field.name!r} is NULL")
        validate_ranges(inner, field.data_type)
