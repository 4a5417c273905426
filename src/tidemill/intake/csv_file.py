"""CSV: a header, then one row per line, as in RFC 4180.

An empty field without quotes is NULL, with quotes an empty string. Blank lines are ignored, except in a file with a
single column, where each is a NULL.
"""

from __future__ import annotations

import csv
from collections.abc import Generator, Iterator
from io import BufferedReader

import pyarrow as pa
from sqlglot import exp

from tidemill.encoding.arrow_types import is_nested
from tidemill.intake.cell_columns import ColumnConverter
from tidemill.intake.csv_rows import CsvRowReader, MalformedCsv
from tidemill.intake.csv_scan import diagnose_csv
from tidemill.intake.delta_layout import DeltaLayout
from tidemill.intake.input_file import InputFile
from tidemill.intake.text_values import from_text
from tidemill.intake.value_ranges import validate_ranges
from tidemill.model.schema import Field


def read_csv(source: InputFile, layout: DeltaLayout) -> Generator[tuple[pa.RecordBatch, float], None, None]:
    _check_not_nested(source, layout)
    with source.open_text() as (stream, raw):
        names = _read_header(source, stream)
        layout.check_names(source, names)
        columns = [_build_column(layout.schema.get_field(name)) for name in names]
        first_row = 1
        for cells in _read_rows(source, stream, len(names)):
            arrays = {
                column.field.name: column.convert_cells(source, cells.column(i), first_row)
                for i, column in enumerate(columns)
            }
            yield layout.build_batch(arrays, cells.num_rows), source.measure_progress(raw)
            first_row += cells.num_rows


def _check_not_nested(source: InputFile, layout: DeltaLayout) -> None:
    for field in layout.schema:
        if is_nested(field.data_type):
            raise source.build_error(
                f"CSV cannot hold column {field.name!r} of type {field.type}; use JSON lines or Parquet"
            )


def _read_header(source: InputFile, stream: BufferedReader) -> list[str]:
    lines = (line.decode() for line in iter(stream.readline, b""))
    try:
        names = next(csv.reader(lines, strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise source.build_error(
            f"its header cannot be read ({error}); expected the names of the columns in UTF-8"
        ) from error
    if not names:
        raise source.build_error("it has no header; expected the names of the columns in the first line")
    return names


def _read_rows(source: InputFile, stream: BufferedReader, width: int) -> Iterator[pa.RecordBatch]:
    try:
        yield from CsvRowReader(stream, width)
    except MalformedCsv as error:
        raise diagnose_csv(source, width) from error


def _build_column(field: Field) -> ColumnConverter:
    kind = field.data_type
    return ColumnConverter(field, lambda cells: _convert_cells(cells, kind))


def _convert_cells(cells: pa.Array, kind: exp.DataType) -> pa.Array:
    return validate_ranges(from_text(cells.cast(pa.string()), kind), kind)
