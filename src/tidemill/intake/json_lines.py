"""JSON lines: one object per line. A column that an object omits is NULL in its row.

Numbers stay text until they are converted to their column's type, so that none loses a digit. Dates, times and binary
values are strings as in CSV; a map is an object with string keys.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tidemill.encoding.arrow_types import is_nested, list_struct_fields, to_arrow_type
from tidemill.intake.cell_columns import ColumnConverter, InvalidCell, from_text
from tidemill.intake.delta_layout import DeltaLayout
from tidemill.intake.input_file import InputFile
from tidemill.model.schema import Field


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


_CHUNK_BYTES = 1 << 20


def read_json_lines(source: InputFile, layout: DeltaLayout) -> Generator[tuple[pa.RecordBatch, float], None, None]:
    columns = [ColumnConverter(field, to_arrow_array) for field in layout.schema]
    first_row = 1
    with source.open_text() as (stream, raw):
        for lines in _read_chunks(source.read_lines(stream)):
            rows = [_parse_line(source, line, first_row + i) for i, line in enumerate(lines)]
            _check_names(source, layout, rows, first_row)
            arrays = {
                column.field.name: column.convert_cells(source, _extract_cells(rows, column.field, layout), first_row)
                for column in columns
            }
            yield layout.build_batch(arrays, len(rows)), source.measure_progress(raw)
            first_row += len(rows)


def _read_chunks(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Non-blank lines, a megabyte at a time: more live objects would slow down Python's garbage collector."""
    chunk, size = list[bytes](), 0
    for line in lines:
        size += len(line)
        if not line.isspace():
            chunk.append(line)
        if size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise InvalidCell("a name occurs twice in an object")
    return members


_DECODER = json.JSONDecoder(
    parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=JsonNumber, object_pairs_hook=_build_object
)


def _parse_line(source: InputFile, line: bytes, row: int) -> dict[str, Any]:
    try:
        value = _DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        raise source.build_row_error(row, f"is not valid UTF-8 from byte {error.start + 1} on") from error
    except (ValueError, RecursionError) as error:
        raise source.build_row_error(row, f"is not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise source.build_row_error(row, "is JSON, but not an object; expected one object per line")
    return value


def _check_names(source: InputFile, layout: DeltaLayout, rows: Sequence[Mapping[str, Any]], first: int) -> None:
    known, required = set(layout.schema.names), set(layout.updates.key)
    for number, row in enumerate(rows, start=first):
        if not row.keys() <= known:
            extra = next(name for name in row if name not in known)
            raise source.build_row_error(
                number, f"has the unknown column {extra!r}; expected {', '.join(layout.schema.names)}"
            )
        if not required <= row.keys():
            missing = next(name for name in layout.updates.key if name not in row)
            raise source.build_row_error(number, f"lacks the key column {missing!r}; it has {', '.join(row) or 'none'}")


def _extract_cells(rows: Sequence[Mapping[str, Any]], field: Field, layout: DeltaLayout) -> list[Any]:
    default = layout.defaults.get(field.name)
    missing_value = JsonNumber(default) if type(default) is int else default
    return [row.get(field.name, missing_value) for row in rows]
