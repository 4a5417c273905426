"""JSON lines: one object per line. A column that an object omits is NULL in its row.

Numbers stay text until they are converted to their column's type, so that none loses a digit. Dates, times and binary
values are strings as in CSV; a map is an object with string keys.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from io import BufferedReader
from typing import Any

import pyarrow as pa

from tidemill.intake.cell_columns import ColumnConverter, InvalidCell
from tidemill.intake.delta_layout import DeltaLayout
from tidemill.intake.input_file import InputFile
from tidemill.intake.json_values import JsonNumber, to_arrow_array
from tidemill.model.schema import Field

_CHUNK_BYTES = 1 << 20


def read_json_lines(source: InputFile, layout: DeltaLayout) -> Generator[tuple[pa.RecordBatch, float], None, None]:
    columns = [ColumnConverter(field, to_arrow_array) for field in layout.schema]
    first_row = 1
    with source.open_text() as (stream, raw):
        for lines in _read_chunks(stream):
            rows = [_parse_line(source, line, first_row + i) for i, line in enumerate(lines)]
            _check_names(source, layout, rows, first_row)
            arrays = {
                column.field.name: column.convert_cells(source, _extract_cells(rows, column.field, layout), first_row)
                for column in columns
            }
            yield layout.build_batch(arrays, len(rows)), source.measure_progress(raw)
            first_row += len(rows)


def _read_chunks(stream: BufferedReader) -> Iterator[list[bytes]]:
    """Non-blank lines, a megabyte at a time: more live objects would slow down Python's garbage collector."""
    while lines := stream.readlines(_CHUNK_BYTES):
        yield [line for line in lines if not line.isspace()]


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
