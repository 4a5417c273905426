"""Columns read the cells of values; commands and the page show the same ones."""

from __future__ import annotations

import pytest
from rich.console import Console

from tidemill.cli.output import render_list
from tidemill.display import columns
from tidemill.display.table import TableCell, read_rows, select_columns
from tidemill.model.run import Run, RunKind, RunState
from tidemill.model.trigger import IntervalTrigger
from tidemill.ports.records import SILENT, RegisteredTrigger, Server

NOW = 1000.0
RUN = Run(7, RunKind.FLOW, "report", RunState.FAILED, 1, 3, created=1.0, started=900.0, finished=902.0, error="a\nb")


def test_a_run_links_to_its_page_and_to_its_subject() -> None:
    shown = select_columns(columns.RUN, "run", "subject", "state", "took", "error")
    cells = [TableCell("7", "/runs/7"), TableCell("report", "/flows/report"), TableCell("failed", tone="failed")]
    assert read_rows(shown, [RUN], NOW) == [[*cells, "2.0 s", "a"]]


def test_commands_show_the_same_cells_without_links() -> None:
    console = Console(width=200)
    with console.capture() as printed:
        console.print(render_list("", columns.RUN, [RUN], NOW))
    assert all(text in printed.get() for text in ("7", "report", "failed", "1 min ago", "2.0 s"))
    assert "/runs/7" not in printed.get()


@pytest.mark.parametrize(
    ("due", "paused", "text"),
    [(NOW + 120, False, "in 2 min"), (NOW - 1, False, "now"), (NOW - 90, False, "1 min late"), (NOW, True, "paused")],
)
def test_a_trigger_shows_when_it_is_due(due: float, paused: bool, text: str) -> None:
    trigger = RegisteredTrigger(1, "report", 0, IntervalTrigger(60.0), due, None, 0, 0, 0, None, paused=paused)
    ((cell,),) = read_rows(select_columns(columns.TRIGGER, "due"), [trigger], NOW)
    assert (cell.text if isinstance(cell, TableCell) else cell) == text


def test_a_silent_server_is_shown_as_failed() -> None:
    server = Server("host:1", "up", 2, SILENT)
    ((cell,),) = read_rows(select_columns(columns.SERVER, "state"), [server], NOW)
    assert cell == TableCell("silent", tone="failed")
