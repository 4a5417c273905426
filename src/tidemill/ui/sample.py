"""A sample of a channel's rows, read on request because that needs Spark."""

from __future__ import annotations

from typing import Any

from tidemill.errors import TidemillError
from tidemill.ui.context import PageContext
from tidemill.ui.elements import ActionButton, HtmlText, add_box, run_off_loop
from tidemill.ui.formatting import format_cell
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
            rows = await run_off_loop(context.mill.rows, channel, None, ROWS)
            status.set_text(f"The first {len(rows)} rows, in no particular order." if rows else "It has no rows.")
            container.clear()
            with container:
                _add_rows_table(rows)
        except TidemillError as error:
            status.set_text(str(error))
        finally:
            button.props.pop("disabled", None)

    button = ActionButton(f"Show {ROWS} rows", show_sample)


def _add_rows_table(rows: list[dict[str, Any]]) -> None:
    if rows:
        table = LiveTable("Sample", list(rows[0]))
        table.show_rows([[format_cell(value) for value in row.values()] for row in rows])
