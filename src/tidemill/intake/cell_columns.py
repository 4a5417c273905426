"""Conversion of raw cells to typed columns: fast without errors, and exact about the position of an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill.intake.input_file import InputFile
from tidemill.model.schema import Field

Cells = Any  # a list or an Arrow array: something with a length that can be sliced
Convert = Callable[[Cells], pa.Array]

_CONVERSION_ERRORS = (ValueError, OverflowError, pa.ArrowException)


class InvalidCell(ValueError):
    """A cell cannot be stored; the message gives the reason, but never the value."""


@dataclass(frozen=True, slots=True)
class ColumnConverter:
    """Converts the cells of one column to an Arrow array."""

    field: Field
    convert: Convert

    def convert_cells(self, source: InputFile, cells: Cells, first_row: int) -> pa.Array:
        """The column; raises `BadInput` about its first invalid cell. `first_row` is the first cell's row number."""
        try:
            return self.convert(cells)
        except _CONVERSION_ERRORS:
            i = _find_first_invalid(cells, self.convert)
        reason = _explain_error(cells[i : i + 1], self.convert)
        raise source.build_cell_error(first_row + i, self.field, reason)


def _find_first_invalid(cells: Cells, convert: Convert) -> int:
    """The first invalid cell, by bisection: the validity of a cell does not depend on its neighbours."""
    start, end = 0, len(cells)
    while end - start > 1:
        middle = (start + end) // 2
        if _find_error(cells[start:middle], convert) is None:
            start = middle
        else:
            end = middle
    return start


def _explain_error(cell: Cells, convert: Convert) -> str:
    error = _find_error(cell, convert)
    return str(error) if isinstance(error, InvalidCell) else ""


def _find_error(cells: Cells, convert: Convert) -> Exception | None:
    try:
        convert(cells)
    except _CONVERSION_ERRORS as error:
        return error
    return None
