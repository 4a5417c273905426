"""JSON values as Arrow arrays of a given Spark type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tidemill.encoding.arrow_types import is_nested, list_struct_fields, to_arrow_type
from tidemill.intake.cell_columns import InvalidCell
from tidemill.intake.text_values import from_text


class JsonNumber(str):
    """The text of a JSON number."""

    __slots__ = ()


_NUMBERS = frozenset(
    {exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT, exp.DType.FLOAT, exp.DType.DOUBLE}
)


def to_arrow_array(values: Sequence[Any], kind: exp.DataType) -> pa.Array:
    """The values, NULL for None; raises a ValueError if one cannot be read as `kind`."""
    return _BUILDERS.get(kind.this, _build_scalars)(values, kind)


def _build_scalars(values: Sequence[Any], kind: exp.DataType) -> pa.Array:
    if kind.this in _NUMBERS:
        _check_types(values, (JsonNumber,), "a number")
    elif kind.this == exp.DType.DECIMAL:
        _check_types(values, (JsonNumber, str), "a number")
    else:
        _check_types(values, (str,), "a text")
    return from_text(pa.array(values, pa.string()), kind)


def _build_booleans(values: Sequence[Any], kind: exp.DataType) -> pa.Array:
    _check_types(values, (bool,), "true or false")
    return pa.array(values, to_arrow_type(kind))


def _build_lists(values: Sequence[Any], kind: exp.DataType) -> pa.Array:
    _check_types(values, (list,), "a list")
    items = to_arrow_array(list(chain.from_iterable(v for v in values if v is not None)), kind.expressions[0])
    return pa.ListArray.from_arrays(_compute_offsets(values), items, type=to_arrow_type(kind))


def _build_maps(values: Sequence[Any], kind: exp.DataType) -> pa.Array:
    _check_types(values, (dict,), "an object")
    key, value = kind.expressions
    present = [v for v in values if v is not None]
    keys = _build_map_keys(list(chain.from_iterable(present)), key)
    items = to_arrow_array(list(chain.from_iterable(v.values() for v in present)), value)
    return pa.MapArray.from_arrays(_compute_offsets(values), keys, items, type=to_arrow_type(kind))


def _build_map_keys(texts: list[str], kind: exp.DataType) -> pa.Array:
    if not is_nested(kind):
        return from_text(pa.array(texts, pa.string()), kind)
    if texts:
        raise InvalidCell("JSON cannot represent maps with nested keys; use Parquet")
    return pa.array([], to_arrow_type(kind))


def _build_structs(values: Sequence[Any], kind: exp.DataType) -> pa.Array:
    """Structs; a field that an object omits is NULL, like a column."""
    _check_types(values, (dict,), "an object")
    fields = list(list_struct_fields(kind))
    _check_fields(values, {f.name for f in fields})
    children = [to_arrow_array([None if v is None else v.get(f.name) for v in values], f.data_type) for f in fields]
    mask = pa.array([v is None for v in values], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(to_arrow_type(kind)), mask=mask)


def _check_fields(values: Iterable[Any], known: set[str]) -> None:
    for value in values:
        if value is not None and not value.keys() <= known:
            extra = next(name for name in value if name not in known)
            raise InvalidCell(f"it has the unknown field {extra!r}")


def _compute_offsets(values: Sequence[Any]) -> pa.Array:
    """The start offset of each list; NULL marks a NULL list."""
    ends = list(accumulate((len(v or ()) for v in values), initial=0))
    starts = [None if v is None else start for v, start in zip(values, ends, strict=False)]
    return pa.array([*starts, ends[-1]], pa.int32())


def _check_types(values: Iterable[Any], types: tuple[type, ...], noun: str) -> None:
    """Check the exact types: a `JsonNumber` is not a string value, though it is a str."""
    if not {type(v) for v in values} <= {*types, type(None)}:
        raise InvalidCell(f"it is not {noun}")


_BUILDERS: dict[exp.DType, Callable[[Sequence[Any], exp.DataType], pa.Array]] = {
    exp.DType.BOOLEAN: _build_booleans,
    exp.DType.ARRAY: _build_lists,
    exp.DType.MAP: _build_maps,
    exp.DType.STRUCT: _build_structs,
}
