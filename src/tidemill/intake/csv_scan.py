"""Diagnosis of malformed CSV files by a second, slow read.

Arrow reports an error, but neither its position nor always its cause: an unclosed quote is reported as a row with too
few values, or as one that is too long.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader

from tidemill.errors import BadInput
from tidemill.intake.csv_rows import BLOCK_BYTES
from tidemill.intake.input_file import InputFile


def diagnose_csv(source: InputFile, width: int) -> BadInput:
    """The error about the first row without `width` values."""
    with source.open_text() as (stream, _), _allow_long_fields():
        return _find_first_error(source, stream, width) or source.build_error(
            "it cannot be read as CSV; write the file again"
        )


def _find_first_error(source: InputFile, stream: BufferedReader, width: int) -> BadInput | None:
    reader = csv.reader((line.decode(errors="backslashreplace") for line in stream), strict=True)
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
    old_limit = csv.field_size_limit(BLOCK_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(old_limit)
