"""Conversion of text values, from CSV cells and JSON, to typed Arrow arrays.

Arrow's casts are stricter in some places and laxer in others than required: they accept hexadecimal integers, turn a
number too large for a DOUBLE into infinity, and wrap around decimals of more than 38 digits. So each text is checked
against a pattern first.
"""

from base64 import b64decode
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tidemill.encoding.arrow_types import INSTANTS, parse_decimal_shape, to_arrow_type
from tidemill.intake.cell_columns import InvalidCell

_INTEGER = r"^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NON_FINITE = r"^[+-]?(?i:nan|inf|infinity)$"
_EXPONENT = r"[eE][+-]?[0-9]{1,3}$"
_ZONE = r":[0-9.]+(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"


def from_text(strings: pa.Array, kind: exp.DataType) -> pa.Array:
    """The values, NULL where the text is NULL; raises a ValueError if one cannot be parsed as `kind`."""
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


def _parse_wall_clocks(strings: pa.Array, kind: exp.DataType) -> pa.Array:
    return _to_microseconds(strings).cast(to_arrow_type(kind))


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
    exp.DType.TIMESTAMPNTZ: _parse_wall_clocks,
    **dict.fromkeys(INSTANTS, _parse_instants),
}
