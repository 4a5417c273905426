"""Conversion of raw cells to typed columns: fast without errors, and exact about the position of an error.

Values are checked against constraints of Spark that Arrow's types lack: years 1 to 9999, and NOT NULL inside structs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tidemill.encoding.arrow_types import INSTANTS, list_struct_fields
from tidemill.intake.input_file import InputFile
from tidemill.model.schema import Field

Cells = Any  # a list or an Arrow array: something with a length that can be sliced
Convert = Callable[[Cells, exp.DataType], pa.Array]

_CONVERSION_ERRORS = (ValueError, OverflowError, pa.ArrowException)


class InvalidCell(ValueError):
    """A cell cannot be stored; the message gives the reason, but never the value."""


@dataclass(frozen=True, slots=True)
class ColumnConverter:
    """Converts the cells of one column to an Arrow array."""

    field: Field
    convert: Convert

    def convert_cells(self, source: InputFile, cells: Cells, first_row: int) -> pa.Array:
        """The column; raises `BadInput` about its first invalid cell. `first_row` is the first cell's row number."""
        try:
            return self._convert(cells)
        except _CONVERSION_ERRORS:
            i = self._find_first_invalid(cells)
        error = self._find_error(cells[i : i + 1])
        reason = str(error) if isinstance(error, InvalidCell) else ""
        raise source.build_cell_error(first_row + i, self.field, reason)

    def _convert(self, cells: Cells) -> pa.Array:
        kind = self.field.data_type
        array = self.convert(cells, kind)
        validate_ranges(array, kind)
        return array

    def _find_first_invalid(self, cells: Cells) -> int:
        """The first invalid cell, by bisection: the validity of a cell does not depend on its neighbours."""
        start, end = 0, len(cells)
        while end - start > 1:
            middle = (start + end) // 2
            if self._find_error(cells[start:middle]) is None:
                start = middle
            else:
                end = middle
        return start

    def _find_error(self, cells: Cells) -> Exception | None:
        try:
            self._convert(cells)
        except _CONVERSION_ERRORS as error:
            return error
        return None


_DAYS = (-719_162, 2_932_896)  # 0001-01-01 and 9999-12-31
_MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)


def validate_ranges(array: pa.Array, kind: exp.DataType) -> None:
    """Raise `InvalidCell` if a value, at any depth, cannot be stored as `kind`."""
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
