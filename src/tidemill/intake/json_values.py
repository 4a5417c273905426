"""JSON values as Arrow arrays of a given Spark type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tidemill.encoding.arrow_types import arrow_type, is_nested, struct_fields
from tidemill.intake.cell_columns import Unfit
from tidemill.intake.text_values import from_text


class Number(str):
    """A number as it was written."""

    __slots__ = ()


_NUMBERS = frozenset(
    {exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT, exp.DType.FLOAT, exp.DType.DOUBLE}
)


def json_array(values: Sequence[Any], kind: exp.DataType) -> pa.Array:
    """The values, NULL for None; raises a ValueError if one cannot be read as `kind`."""
    return _BUILDERS.get(kind.this, _leaves)(values, kind)


def _leaves(values: Sequence[Any], kind: exp.DataType) -> pa.Array:
    if kind.this in _NUMBERS:
        _demand(values, (Number,), "a number")
    elif kind.this == exp.DType.DECIMAL:
        _demand(values, (Number, str), "a number")
    else:
        _demand(values, (str,), "a text")
    return from_text(pa.array(values, pa.string()), kind)


def _booleans(values: Sequence[Any], kind: exp.DataType) -> pa.Array:
    _demand(values, (bool,), "true or false")
    return pa.array(values, arrow_type(kind))


def _arrays(values: Sequence[Any], kind: exp.DataType) -> pa.Array:
    _demand(values, (list,), "a list")
    items = json_array(list(chain.from_iterable(v for v in values if v is not None)), kind.expressions[0])
    return pa.ListArray.from_arrays(_offsets(values), items, type=arrow_type(kind))


def _maps(values: Sequence[Any], kind: exp.DataType) -> pa.Array:
    _demand(values, (dict,), "an object")
    key, value = kind.expressions
    present = [v for v in values if v is not None]
    keys = _map_keys(list(chain.from_iterable(present)), key)
    items = json_array(list(chain.from_iterable(v.values() for v in present)), value)
    return pa.MapArray.from_arrays(_offsets(values), keys, items, type=arrow_type(kind))


def _map_keys(texts: list[str], kind: exp.DataType) -> pa.Array:
    if not is_nested(kind):
        return from_text(pa.array(texts, pa.string()), kind)
    if texts:
        raise Unfit("JSON cannot hold maps with such keys; use Parquet")
    return pa.array([], arrow_type(kind))


def _structs(values: Sequence[Any], kind: exp.DataType) -> pa.Array:
    """A field that an object lacks is NULL, as a column is."""
    _demand(values, (dict,), "an object")
    fields = list(struct_fields(kind))
    _refuse_unknown(values, {f.name for f in fields})
    children = [json_array([None if v is None else v.get(f.name) for v in values], f.parsed) for f in fields]
    mask = pa.array([v is None for v in values], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(kind)), mask=mask)


def _refuse_unknown(values: Iterable[Any], known: set[str]) -> None:
    for value in values:
        if value is not None and not value.keys() <= known:
            extra = next(name for name in value if name not in known)
            raise Unfit(f"it has the unknown field {extra!r}")


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Where each list begins; NULL marks a NULL list."""
    ends = list(accumulate((len(v or ()) for v in values), initial=0))
    begins = [None if v is None else begin for v, begin in zip(values, ends, strict=False)]
    return pa.array([*begins, ends[-1]], pa.int32())


def _demand(values: Iterable[Any], wanted: tuple[type, ...], what: str) -> None:
    """Exactly these types: a `Number` is no text, though it is a str."""
    if not {type(v) for v in values} <= {*wanted, type(None)}:
        raise Unfit(f"it is not {what}")


_BUILDERS: dict[exp.DType, Callable[[Sequence[Any], exp.DataType], pa.Array]] = {
    exp.DType.BOOLEAN: _booleans,
    exp.DType.ARRAY: _arrays,
    exp.DType.MAP: _maps,
    exp.DType.STRUCT: _structs,
}
