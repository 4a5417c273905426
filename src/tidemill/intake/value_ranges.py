"""What Spark asks of values and Arrow's types do not: years 1 to 9999, and NOT NULL inside structs."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tidemill.encoding.arrow_types import INSTANTS, struct_fields
from tidemill.intake.cell_columns import Unfit

_DAYS = (-719_162, 2_932_896)  # 0001-01-01 and 9999-12-31
_MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)


def sound(array: pa.Array, kind: exp.DataType) -> pa.Array:
    """The array itself, or `Unfit` if a value in it, at any depth, cannot be stored as `kind`."""
    match kind.this:
        case exp.DType.DATE:
            _within(array.cast(pa.int32()), *_DAYS)
        case exp.DType.TIMESTAMPNTZ:
            _within(array.cast(pa.int64()), *_MICROSECONDS)
        case instant if instant in INSTANTS:
            _within(array.cast(pa.int64()), *_MICROSECONDS)
        case exp.DType.ARRAY:
            sound(array.flatten(), kind.expressions[0])
        case exp.DType.MAP:
            _sound_map(array, *kind.expressions)
        case exp.DType.STRUCT:
            _sound_struct(array, kind)
    return array


def _within(numbers: pa.Array, least: int, most: int) -> None:
    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and not (least <= found["min"] and found["max"] <= most):
        raise Unfit("it is out of range")


def _sound_map(array: pa.Array, key: exp.DataType, value: exp.DataType) -> None:
    if len(array):
        begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        sound(array.keys.slice(begin, end - begin), key)
        sound(array.items.slice(begin, end - begin), value)


def _sound_struct(array: pa.Array, kind: exp.DataType) -> None:
    for index, field in enumerate(struct_fields(kind)):
        inner = pc.struct_field(array, [index])
        if not field.nullable and pc.any(pc.and_(array.is_valid(), inner.is_null())).as_py():
            raise Unfit(f"its field {field.name!r} is NULL")
        sound(inner, field.parsed)
