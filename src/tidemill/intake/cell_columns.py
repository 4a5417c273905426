"""From raw cells to typed columns: fast when all is well, exact about the place when it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill.intake.input_file import Source
from tidemill.model.schema import Field

Cells = Any  # a list or an Arrow array: something with a length that can be sliced
Convert = Callable[[Cells], pa.Array]

_UNFIT = (ValueError, OverflowError, pa.ArrowException)


class Unfit(ValueError):
    """A cell cannot be stored; the message says why, and nothing of what is in it."""


@dataclass(frozen=True, slots=True)
class Column:
    """How the cells of one column become an Arrow array."""

    field: Field
    convert: Convert

    def converted(self, source: Source, cells: Cells, first_row: int) -> pa.Array:
        """The column, or `BadInput` about its first unfit cell; `first_row` is the number of the first cell's row."""
        try:
            return self.convert(cells)
        except _UNFIT:
            at = _first_unfit(cells, self.convert)
        why = _reason(cells[at : at + 1], self.convert)
        raise source.bad_cell(first_row + at, self.field, why)


def _first_unfit(cells: Cells, convert: Convert) -> int:
    """Whether a cell fits never depends on its neighbours, so that halving finds the first that does not."""
    good, bad = 0, len(cells)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _complaint(cells[good:middle], convert) is None:
            good = middle
        else:
            bad = middle
    return good


def _reason(cell: Cells, convert: Convert) -> str:
    complaint = _complaint(cell, convert)
    return str(complaint) if isinstance(complaint, Unfit) else ""


def _complaint(cells: Cells, convert: Convert) -> Exception | None:
    try:
        convert(cells)
    except _UNFIT as error:
        return error
    return None
