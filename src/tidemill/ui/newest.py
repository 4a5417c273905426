"""The rows that came last into a channel, as they come: read from the files of its newest blocks, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice

from tidemill.app.wiring import Tidemill
from tidemill.encoding.block_rows import Selection, pieces
from tidemill.errors import TidemillError
from tidemill.model.block import Block, BlockState
from tidemill.ui.elements import box, section
from tidemill.ui.formatting import cell
from tidemill.ui.table import Table

ROWS = 10
BLOCKS = 5
"""Newest blocks that are looked into: most of those of a stream have a few rows, and some none."""

Line = dict[str, object]


def newest(mill: Tidemill, blocks: Iterable[Block]) -> list[Line]:
    """Some rows of the newest blocks, the last to come first; `blocks` come so."""
    filled = [b for b in blocks if b.state is BlockState.FILLED and b.files]
    try:
        return list(islice((row for block in filled[:BLOCKS] for row in _rows(mill, block)), ROWS))
    except (OSError, TidemillError):  # collected in this very moment: the next look finds other blocks
        return []


def _rows(mill: Tidemill, block: Block) -> Iterator[Line]:
    for piece in pieces(block, mill.store.open, Selection()):
        yield from map(json.loads, piece.lines)


class Newest:
    """A section with a table, made anew when the columns are others."""

    def __init__(self) -> None:
        with section("Newest rows", "as they come, with what a delta says of them"):
            self._place = box("sample")
        self._names: list[str] | None = None
        self._show([])

    def show(self, rows: list[Line]) -> None:
        names = list(dict.fromkeys(name for row in rows for name in row))
        if names != self._names:
            self._show(names)
        self._table.show([[cell(row.get(name)) for name in names] for row in rows])

    def _show(self, names: list[str]) -> None:
        self._place.clear()
        with self._place:
            self._table = Table("Newest rows", names, empty="none yet")
        self._names = names
