"""The newest rows of a channel, read from the files of its newest blocks without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice

from tidemill.app.wiring import Tidemill
from tidemill.encoding.block_rows import RowSelection, split_into_chunks
from tidemill.errors import TidemillError
from tidemill.model.block import Block, BlockState
from tidemill.ui.elements import add_box, add_section
from tidemill.ui.formatting import format_cell
from tidemill.ui.table import LiveTable

ROWS = 10
BLOCKS = 5
"""Newest blocks that are read: most blocks of a stream have a few rows, and some none."""

Line = dict[str, object]


def read_newest_rows(mill: Tidemill, blocks: Iterable[Block]) -> list[Line]:
    """Some rows of the newest blocks, the newest block first; `blocks` are in that order."""
    filled = [b for b in blocks if b.state is BlockState.FILLED and b.files]
    try:
        return list(islice((row for block in filled[:BLOCKS] for row in _read_rows(mill, block)), ROWS))
    except (OSError, TidemillError):  # garbage-collected meanwhile: the next refresh finds other blocks
        return []


def _read_rows(mill: Tidemill, block: Block) -> Iterator[Line]:
    for chunk in split_into_chunks(block, mill.store.open_file, RowSelection()):
        yield from map(json.loads, chunk.lines)


class NewestRowsView:
    """A section with a table, rebuilt when the columns change."""

    def __init__(self) -> None:
        with add_section("Newest rows", "as they arrive, with the columns of a delta"):
            self._container = add_box("sample")
        self._names: list[str] | None = None
        self._rebuild_table([])

    def show_rows(self, rows: list[Line]) -> None:
        names = list(dict.fromkeys(name for row in rows for name in row))
        if names != self._names:
            self._rebuild_table(names)
        self._table.show_rows([[format_cell(row.get(name)) for name in names] for row in rows])

    def _rebuild_table(self, names: list[str]) -> None:
        self._container.clear()
        with self._container:
            self._table = LiveTable("Newest rows", names, empty="none yet")
        self._names = names
