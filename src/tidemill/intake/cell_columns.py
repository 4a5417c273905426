"""From raw cells to typed columns: fast when all is well, exact about the place when it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill.intake.input_file import InputFile
from tidemill.model.schema import Field

Cells = Any  # a list or an Arrow array: something with a length that can be sliced
Convert = Callable[[Cells], pa.Array]

_UNFIT = (ValueError, OverflowError, pa.ArrowException)


class InvalidCell(ValueError):
    """A cell cannot be stored; the message says why, and nothing of what is in it."""


@dataclass(frozen=True, slots=True)
class ColumnConverter:
    """How the cells of one column become an Arrow array."""

    field: Field
    convert: Convert

    def convert_cells(self, source: InputFile, cells: Cells, first_row: int) -> pa.Array:
        """The column, or `BadInput` about its first unfit cell; `first_row` is the number of the first cell's row."""
        try:
            return self.convert(cells)
        except _UNFIT:
            at = _find_first_invalid(cells, self.convert)
        why = _explain_error(cells[at : at + 1], self.convert)
        raise source.build_cell_error(first_row + at, self.field, why)


def _find_first_invalid(cells: Cells, convert: Convert) -> int:
    """Whether a cell fits never depends on its neighbours, so that halving finds the first that does not."""
    good, bad = 0, len(cells)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _find_error(cells[good:middle], convert) is None:
            good = middle
        else:
            bad = middle
    return good


def _explain_error(cell: Cells, convert: Convert) -> str:
    complaint = _find_error(cell, convert)
    return str(complaint) if isinstance(complaint, InvalidCell) else ""


def _find_error(cells: Cells, convert: Convert) -> Exception | None:
    try:
        convert(cells)
    except _UNFIT as error:
        return error
    return None
