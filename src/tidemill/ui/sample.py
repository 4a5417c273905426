"""Rows of a channel: a sample that Spark reads on request, and the newest, read from their files without Spark."""

import base64
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tidemill.app.wiring import Tidemill
from tidemill.display.formatting import escape_controls
from tidemill.encoding.block_rows import RowSelection, split_into_chunks
from tidemill.errors import TidemillError
from tidemill.model.block import Block, BlockState
from tidemill.ui.context import PageContext
from tidemill.ui.elements import ActionButton, HtmlText, add_box, add_section, run_off_loop
from tidemill.ui.table import LiveTable

ROWS = 20


def add_sample(context: PageContext, channel: str) -> None:
    """A button, and below it the rows after a click."""
    status = HtmlText("Reads through Spark; the first time takes some seconds.", "p", "muted")
    container = add_box("sample")

    async def show_sample() -> None:
        status.set_text("Reading …")
        button.props["disabled"] = True
        try:
            if await context.check_viewer() is None:
                return
            rows = await run_off_loop(context.mill.rows, channel, None, ROWS)
            status.set_text(f"The first {len(rows)} rows, in no particular order." if rows else "It has no rows.")
            container.clear()
            if rows:
                with container:
                    table = LiveTable("Sample", list(rows[0]))
                table.show_rows([[format_cell(value) for value in row.values()] for row in rows])
        except TidemillError as error:
            status.set_text(context.mill.redactor.summarize(error))
        finally:
            button.props.pop("disabled", None)

    button = ActionButton(f"Show {ROWS} rows", show_sample)


NEWEST_ROWS = 10
BLOCKS = 5
"""Newest blocks that are read: most blocks of a stream have a few rows, and some none."""

Line = dict[str, object]


def read_newest_rows(mill: Tidemill, blocks: Iterable[Block]) -> list[Line]:
    """Some rows of the newest blocks, the newest block first; `blocks` are in that order."""
    filled = [b for b in blocks if b.state is BlockState.FILLED and b.files]
    try:
        return list(islice((row for block in filled[:BLOCKS] for row in _read_rows(mill, block)), NEWEST_ROWS))
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


MAX_CELL_CHARACTERS = 300
"""Characters of a cell that are shown."""


def format_cell(value: Any) -> str:
    """A value of a row on one line. Control characters are escaped, and long values are truncated.

    >>> format_cell("a\\tb"), format_cell(None), format_cell({"k": 1.5}), format_cell(b"x")
    ('a\\\\tb', 'null', '{"k": 1.5}', 'eA==')
    """
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return _shorten_text(base64.b64encode(value).decode())
    if isinstance(value, dict | list | tuple | bool):
        return _shorten_text(json.dumps(value, ensure_ascii=False, default=str))
    return _shorten_text(str(value))


def _shorten_text(text: str) -> str:
    shortened = text if len(text) <= MAX_CELL_CHARACTERS else text[:MAX_CELL_CHARACTERS] + " …"
    return escape_controls(shortened)
