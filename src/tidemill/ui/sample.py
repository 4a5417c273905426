"""A few rows of a channel, for whoever asks: reading them takes Spark."""

from __future__ import annotations

from typing import Any

from tidemill.errors import TidemillError
from tidemill.ui.context import Desk, off_loop
from tidemill.ui.elements import Button, Text, box
from tidemill.ui.formatting import cell
from tidemill.ui.table import Table

ROWS = 20


def sample(desk: Desk, channel: str) -> None:
    """A button, and below it the rows once somebody has clicked."""
    said = Text("Reads through Spark; the first time takes some seconds.", "p", "muted")
    place = box("sample")

    async def show() -> None:
        said.set_text("Reading …")
        asked.props["disabled"] = True
        try:
            found = await off_loop(desk.mill.rows, channel, None, ROWS)
            said.set_text(f"The first {len(found)} rows, in no particular order." if found else "It has no rows.")
            place.clear()
            with place:
                _rows(found)
        except TidemillError as error:
            said.set_text(str(error))
        finally:
            asked.props.pop("disabled", None)

    asked = Button(f"Show {ROWS} rows", show)


def _rows(found: list[dict[str, Any]]) -> None:
    if found:
        table = Table("Sample", list(found[0]))
        table.show([[cell(value) for value in row.values()] for row in found])
