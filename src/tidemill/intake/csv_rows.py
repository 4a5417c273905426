"""The rows of a CSV file as Arrow reads them, fast."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader, RawIOBase

import pyarrow as pa
import pyarrow.csv as pc

BLOCK = 4 << 20
"""The longest possible row. Arrow reads some thirty blocks ahead, so that this bounds memory, too."""

_END = "\0end of file\0"


class MalformedCsv(Exception):
    """A row has too few or too many values, is too long, or opens a quote that is never closed."""


class CsvRowReader:
    """What follows the header: batches of binary columns, each cell as it is written, NULL if empty and unquoted.

    Arrow takes a quote that is never closed for closed at the end of the file. So a last row of our own is
    added: if it does not come out again as a row, a quote has swallowed it.
    """

    def __init__(self, stream: BufferedReader, width: int) -> None:
        self._width = width
        self._body = _TerminatedStream(stream, f"{','.join([_END] * width)}\n".encode())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        ended = False
        try:
            with pc.open_csv(self._body, **self._build_options()) as reader:
                for batch in reader:
                    ended = _is_end(batch)
                    yield batch.slice(0, batch.num_rows - ended)
        except pa.ArrowInvalid as error:
            raise MalformedCsv(str(error)) from error
        if not ended:
            raise MalformedCsv("a quote is never closed")

    def _build_options(self) -> dict[str, object]:
        names = [str(i) for i in range(self._width)]
        return {
            "read_options": pc.ReadOptions(column_names=names, block_size=BLOCK, use_threads=False),
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
    last = [column[-1].as_py() for column in batch.columns] if batch.num_rows else []
    return bool(last) and all(cell == _END.encode() for cell in last)
