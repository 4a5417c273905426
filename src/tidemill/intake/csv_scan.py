"""Where a CSV file loses its shape, found by reading it again slowly.

Arrow says that something is wrong, but neither reliably where nor always truly what: to it, a quote that is
never closed is a row with too few values, or one that is too long.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader

from tidemill.errors import BadInput
from tidemill.intake.csv_rows import BLOCK
from tidemill.intake.input_file import Source


def misshapen(source: Source, width: int) -> BadInput:
    """The error about the first row without `width` values."""
    with source.text() as (stream, _), _long_fields():
        return _first(source, stream, width) or source.bad("it cannot be read as CSV; write the file again")


def _first(source: Source, stream: BufferedReader, width: int) -> BadInput | None:
    reader = csv.reader((line.decode(errors="backslashreplace") for line in stream), strict=True)
    row, line = -1, 1
    try:
        for values in reader:
            row += bool(values) or width == 1
            if values and len(values) != width:
                return source.bad_row(row, f"(line {line}) has {len(values)} values, the header has {width}")
            line = reader.line_num + 1
    except csv.Error as error:
        return source.bad_row(row + 1, f"(line {line}) has a quote that is never closed or stands wrong ({error})")
    return None


@contextmanager
def _long_fields() -> Iterator[None]:
    usual = csv.field_size_limit(BLOCK)
    try:
        yield
    finally:
        csv.field_size_limit(usual)
