"""A few rows of a channel, for whoever asks: reading them takes Spark."""

from __future__ import annotations

from typing import Any

from tidemill.errors import TidemillError
from tidemill.ui.context import PageContext
from tidemill.ui.elements import ActionButton, HtmlText, add_box, run_off_loop
from tidemill.ui.formatting import format_cell
from tidemill.ui.table import LiveTable

ROWS = 20


def add_sample(desk: PageContext, channel: str) -> None:
    """A button, and below it the rows once somebody has clicked."""
    said = HtmlText("Reads through Spark; the first time takes some seconds.", "p", "muted")
    place = add_box("sample")

    async def show_sample() -> None:
        said.set_text("Reading …")
        asked.props["disabled"] = True
        try:
            found = await run_off_loop(desk.mill.rows, channel, None, ROWS)
            said.set_text(f"The first {len(found)} rows, in no particular order." if found else "It has no rows.")
            place.clear()
            with place:
                _add_rows_table(found)
        except TidemillError as error:
            said.set_text(str(error))
        finally:
            asked.props.pop("disabled", None)

    asked = ActionButton(f"Show {ROWS} rows", show_sample)


def _add_rows_table(found: list[dict[str, Any]]) -> None:
    if found:
        table = LiveTable("Sample", list(found[0]))
        table.show_rows([[format_cell(value) for value in row.values()] for row in found])
