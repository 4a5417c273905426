"""Conversion of raw cells to typed columns: fast without errors, and exact about the position of an error.

Values are checked against constraints of Spark that Arrow's types lack: years 1 to 9999, and NOT NULL inside structs.
"""

from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tidemill.encoding.arrow_types import INSTANTS, list_struct_fields, parse_decimal_shape, to_arrow_type
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


_INTEGER = r"^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NON_FINITE = r"^[+-]?(?i:nan|inf|infinity)$"
_EXPONENT = r"[eE][+-]?[0-9]{1,3}$"
_ZONE = r":[0-9.]+(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"


def from_text(strings: pa.Array, kind: exp.DataType) -> pa.Array:
    """The values, NULL where the text is NULL; raises a ValueError if one cannot be parsed as `kind`.

    Arrow's casts accept hexadecimal integers, turn a number too large for a DOUBLE into infinity, and wrap around
    decimals of more than 38 digits. So each text is checked against a pattern first.
    """
    return _READERS[kind.this](strings, kind)


def _cast_plain(strings: pa.Array, kind: exp.DataType) -> pa.Array:
    return strings.cast(to_arrow_type(kind))


def _parse_integers(strings: pa.Array, kind: exp.DataType) -> pa.Array:
    _check_all(pc.match_substring_regex(strings, _INTEGER), "it is not a whole number")
    return pc.replace_substring_regex(strings, r"^\+", "").cast(to_arrow_type(kind))


def _parse_floats(strings: pa.Array, kind: exp.DataType) -> pa.Array:
    finite = pc.match_substring_regex(strings, _NUMBER)
    _check_all(pc.or_(finite, pc.match_substring_regex(strings, _NON_FINITE)), "it is not a number")
    values = strings.cast(to_arrow_type(kind))
    _check_all(pc.or_(pc.is_finite(values), pc.invert(finite)), "it is out of range")
    return values


def _parse_decimals(strings: pa.Array, kind: exp.DataType) -> pa.Array:
    _check_all(pc.match_substring_regex(strings, _NUMBER), "it is not a number")
    precision, scale = parse_decimal_shape(kind)
    expanded = _expand_exponents(strings)
    pattern = rf"^[+-]?0*[0-9]{{0,{precision - scale}}}(\.[0-9]{{0,{scale}}}0*)?$"
    _check_all(pc.match_substring_regex(expanded, pattern), "it does not fit")
    trimmed = pc.replace_substring_regex(expanded, r"^([+-]?)0+([0-9])", r"\1\2")
    trimmed = pc.replace_substring_regex(trimmed, rf"(\.[0-9]{{{scale}}})0+$", r"\1")
    return trimmed.cast(to_arrow_type(kind))


def _expand_exponents(strings: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring(strings, "e", ignore_case=True)).as_py():
        return strings
    _check_all(
        pc.or_(pc.match_substring_regex(strings, _EXPONENT), pc.match_substring_regex(strings, r"^[^eE]*$")),
        "it does not fit",
    )
    return pa.array([None if s is None else format(Decimal(s), "f") for s in strings.to_pylist()], pa.string())


def _parse_instants(strings: pa.Array, kind: exp.DataType) -> pa.Array:
    """Timestamps; a text without a zone is in UTC."""
    texts = _to_microseconds(strings)
    has_zone = pc.match_substring_regex(texts, _ZONE)
    null = pa.scalar(None, pa.string())
    zoned_values = pc.if_else(has_zone, texts, null).cast(to_arrow_type(kind))
    utc_values = pc.if_else(has_zone, null, texts).cast(pa.timestamp("us"))
    return pc.coalesce(zoned_values, utc_values.view(to_arrow_type(kind)))


def _to_microseconds(strings: pa.Array) -> pa.Array:
    """Drop zeros beyond the microsecond, as Java and Go write them."""
    return pc.replace_substring_regex(strings, r"(\.[0-9]{6})0+", r"\1")


def _decode_base64(strings: pa.Array, kind: exp.DataType) -> pa.Array:
    decoded = [None if s is None else b64decode(s, validate=True) for s in strings.to_pylist()]
    return pa.array(decoded, to_arrow_type(kind))


def _check_all(conditions: pa.Array, message: str) -> None:
    if pc.all(conditions).as_py() is False:
        raise InvalidCell(message)


_READERS: dict[exp.DType, Callable[[pa.Array, exp.DataType], pa.Array]] = {
    exp.DType.BOOLEAN: _cast_plain,
    exp.DType.TINYINT: _parse_integers,
    exp.DType.SMALLINT: _parse_integers,
    exp.DType.INT: _parse_integers,
    exp.DType.BIGINT: _parse_integers,
    exp.DType.FLOAT: _parse_floats,
    exp.DType.DOUBLE: _parse_floats,
    exp.DType.DECIMAL: _parse_decimals,
    exp.DType.TEXT: _cast_plain,
    exp.DType.BINARY: _decode_base64,
    exp.DType.DATE: _cast_plain,
    exp.DType.TIMESTAMPNTZ: lambda strings, kind: _to_microseconds(strings).cast(to_arrow_type(kind)),
    **dict.fromkeys(INSTANTS, _parse_instants),
}
