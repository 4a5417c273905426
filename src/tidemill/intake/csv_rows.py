"""Reading of CSV rows with Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader, RawIOBase

import pyarrow as pa
import pyarrow.csv as pc

BLOCK_BYTES = 4 << 20
"""The greatest length of a row. Arrow reads about thirty blocks ahead, so that this also bounds memory."""

_SENTINEL = "\0end of file\0"


class MalformedCsv(Exception):
    """A row has too few or too many values, is too long, or opens a quote that is never closed."""


class CsvRowReader:
    """The rows after the header as batches of binary columns; a cell is NULL if it is empty and unquoted.

    Arrow treats an unclosed quote as closed at the end of the file. So a sentinel row is appended: if it is not
    returned as a row, it is inside an unclosed quote.
    """

    def __init__(self, stream: BufferedReader, width: int) -> None:
        self._width = width
        self._body = _TerminatedStream(stream, f"{','.join([_SENTINEL] * width)}\n".encode())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        has_ended = False
        try:
            with pc.open_csv(self._body, **self._build_options()) as reader:
                for batch in reader:
                    has_ended = _is_end(batch)
                    yield batch.slice(0, batch.num_rows - has_ended)
        except pa.ArrowInvalid as error:
            raise MalformedCsv(str(error)) from error
        if not has_ended:
            raise MalformedCsv("a quote is never closed")

    def _build_options(self) -> dict[str, object]:
        names = [str(i) for i in range(self._width)]
        return {
            "read_options": pc.ReadOptions(column_names=names, block_size=BLOCK_BYTES, use_threads=False),
            "parse_options": pc.ParseOptions(newlines_in_values=True, ignore_empty_lines=self._width > 1),
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
