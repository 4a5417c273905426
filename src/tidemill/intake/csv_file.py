"""CSV: a header, then one row per line, as in RFC 4180.

An empty field without quotes is NULL, with quotes an empty string. Blank lines are ignored, except in a file with a
single column, where each is a NULL.
"""

import csv
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase

import pyarrow as pa
import pyarrow.csv as pc

from tidemill.encoding.arrow_types import is_nested
from tidemill.errors import BadInput
from tidemill.intake.cell_columns import ColumnConverter, from_text
from tidemill.intake.delta_layout import DeltaLayout
from tidemill.intake.input_file import InputFile

BLOCK_BYTES = 4 << 20
"""The greatest length of a row. Arrow reads about thirty blocks ahead, so that this also bounds memory."""

_MAX_FIELD_BYTES = BLOCK_BYTES  # of a field in a file that is diagnosed
_SENTINEL = "\0end of file\0"


def read_csv(source: InputFile, layout: DeltaLayout) -> Generator[tuple[pa.RecordBatch, float], None, None]:
    _check_not_nested(source, layout)
    with source.open_text() as (stream, raw):
        names = _read_header(source, source.read_lines(stream))
        layout.check_names(source, names)
        fields = (layout.schema.get_field(name) for name in names)
        columns = [ColumnConverter(f, lambda cells, kind: from_text(cells.cast(pa.string()), kind)) for f in fields]
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


def _read_header(source: InputFile, lines: Iterator[bytes]) -> list[str]:
    try:
        names = next(csv.reader((line.decode() for line in lines), strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise source.build_error(
            f"its header cannot be read ({error}); expected the names of the columns in UTF-8"
        ) from error
    if not names:
        raise source.build_error("it has no header; expected the names of the columns in the first line")
    return names


def _read_rows(source: InputFile, stream: BufferedReader, width: int) -> Iterator[pa.RecordBatch]:
    try:
        yield from _parse_rows(stream, width)
    except pa.ArrowInvalid as error:
        raise _diagnose_csv(source, width) from error


def _parse_rows(stream: BufferedReader, width: int) -> Iterator[pa.RecordBatch]:
    """The rows after the header as batches of binary columns; a cell is NULL if it is empty and unquoted.

    Arrow treats an unclosed quote as closed at the end of the file. So a sentinel row is appended: if it is not
    returned as a row, it is inside an unclosed quote.
    """
    body, has_ended = _TerminatedStream(stream, f"{','.join([_SENTINEL] * width)}\n".encode()), False
    with pc.open_csv(body, **_build_options(width)) as reader:
        for batch in reader:
            has_ended = _is_end(batch)
            yield batch.slice(0, batch.num_rows - has_ended)
    if not has_ended:
        raise pa.ArrowInvalid("a quote is never closed")


def _build_options(width: int) -> dict[str, object]:
    names = [str(i) for i in range(width)]
    return {
        "read_options": pc.ReadOptions(column_names=names, block_size=BLOCK_BYTES, use_threads=False),
        "parse_options": pc.ParseOptions(newlines_in_values=True, ignore_empty_lines=width > 1),
        "convert_options": pc.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    }


class _TerminatedStream(RawIOBase):
    """A stream with one more line at its end."""

    def __init__(self, stream: BufferedReader, line: bytes) -> None:
        super().__init__()
        self._stream = stream
        self._line = line
        self._last = b"\n"

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        if data:
            self._last = data[-1:]
            return data
        line, self._line = self._line, b""
        return line if self._last in b"\r\n" or not line else b"\n" + line

    def readable(self) -> bool:
        return True


def _is_end(batch: pa.RecordBatch) -> bool:
    last_row = [column[-1].as_py() for column in batch.columns] if batch.num_rows else []
    return bool(last_row) and all(cell == _SENTINEL.encode() for cell in last_row)


def _diagnose_csv(source: InputFile, width: int) -> BadInput:
    """The error about the first row without `width` values, found by a second, slow read.

    Arrow reports neither the position of an error nor always its cause: an unclosed quote is reported as a row with too
    few values, or as one that is too long.
    """
    with source.open_text() as (stream, _), _allow_long_fields():
        return _find_first_error(source, stream, width) or source.build_error(
            "it cannot be read as CSV; write the file again"
        )


def _find_first_error(source: InputFile, stream: BufferedReader, width: int) -> BadInput | None:
    lines = (line.decode(errors="backslashreplace") for line in source.read_lines(stream))
    reader = csv.reader(lines, strict=True)
    row, line = -1, 1
    try:
        for values in reader:
            row += bool(values) or width == 1
            if values and len(values) != width:
                return source.build_row_error(row, f"(line {line}) has {len(values)} values, the header has {width}")
            line = reader.line_num + 1
    except csv.Error as error:
        return source.build_row_error(row + 1, f"(line {line}) has a quote that is unclosed or misplaced ({error})")
    return None


@contextmanager
def _allow_long_fields() -> Iterator[None]:
    old_limit = csv.field_size_limit(_MAX_FIELD_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(old_limit)
