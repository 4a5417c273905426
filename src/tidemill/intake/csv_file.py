"""CSV: a header, then one row per line, as RFC 4180 has it.

An empty field without quotes is NULL, with quotes an empty text. Blank lines mean nothing, except in a
file with a single column, where each is a NULL.
"""

from __future__ import annotations

import csv
from collections.abc import Generator, Iterator
from io import BufferedReader

import pyarrow as pa
from sqlglot import exp

from tidemill.encoding.arrow_types import is_nested
from tidemill.intake.cell_columns import Column
from tidemill.intake.csv_rows import CsvRows, Misread
from tidemill.intake.csv_scan import misshapen
from tidemill.intake.delta_layout import Layout
from tidemill.intake.input_file import Source
from tidemill.intake.text_values import from_text
from tidemill.intake.value_ranges import sound
from tidemill.model.schema import Field


def read(source: Source, layout: Layout) -> Generator[tuple[pa.RecordBatch, float], None, None]:
    _refuse_nested(source, layout)
    with source.text() as (stream, raw):
        names = _header(source, stream)
        layout.check_names(source, names)
        columns = [_column(layout.schema.field(name)) for name in names]
        first = 1
        for cells in _rows(source, stream, len(names)):
            arrays = {c.field.name: c.converted(source, cells.column(i), first) for i, c in enumerate(columns)}
            yield layout.batch(arrays, cells.num_rows), source.fraction(raw)
            first += cells.num_rows


def _refuse_nested(source: Source, layout: Layout) -> None:
    for field in layout.schema:
        if is_nested(field.parsed):
            raise source.bad(f"CSV cannot hold column {field.name!r} of type {field.type}; use JSON lines or Parquet")


def _header(source: Source, stream: BufferedReader) -> list[str]:
    lines = (line.decode() for line in iter(stream.readline, b""))
    try:
        names = next(csv.reader(lines, strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise source.bad(f"its header cannot be read ({error}); expected the names of the columns in UTF-8") from error
    if not names:
        raise source.bad("it has no header; expected the names of the columns in the first line")
    return names


def _rows(source: Source, stream: BufferedReader, width: int) -> Iterator[pa.RecordBatch]:
    try:
        yield from CsvRows(stream, width)
    except Misread as error:
        raise misshapen(source, width) from error


def _column(field: Field) -> Column:
    kind = field.parsed
    return Column(field, lambda cells: _typed(cells, kind))


def _typed(cells: pa.Array, kind: exp.DataType) -> pa.Array:
    return sound(from_text(cells.cast(pa.string()), kind), kind)
