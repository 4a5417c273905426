"""Printing: answers on standard output, errors and progress on standard error. No other module prints."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import IO

from pydantic_core import to_json
from rich import box
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tidemill.cli.large_table import LargeTable
from tidemill.display.formatting import escape_controls
from tidemill.display.table import Columns, T, TableCell, read_rows
from tidemill.model.codec import Json
from tidemill.wire.document import ResponseDocument

_UNLIMITED_WIDTH = 100_000
"""Width of output that is not a terminal: nothing is cut, because a program may read it."""

NONE = "-"

MAX_WRAPPED_ROWS = 200
"""Rows up to which a table is fitted to the width of a terminal."""

_STYLES = dict.fromkeys(("add", "finished", "fresh"), "green") | dict.fromkeys(("change", "late", "waiting"), "yellow")
_STYLES |= dict.fromkeys(("claimed", "submitted", "running", "reserved"), "cyan") | {"collected": "dim"}
_STYLES |= dict.fromkeys(("remove", "failed", "killed", "cancelled"), "red")
"""Styles of the tones of cells."""


def build_console(stream: IO[str]) -> Console:
    """Build a console that prints texts literally: users' names and data are neither markup nor emojis."""
    width = None if stream.isatty() or "COLUMNS" in os.environ else _UNLIMITED_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


Document = ResponseDocument | Json | Callable[[], ResponseDocument]
Part = RenderableType | Callable[[], Iterable[RenderableType]]


class Answer:
    """The answer of a command: a document for programs, or its readable parts for people.

    A large document, and large parts, may be given as functions that build them, called only if they are printed.
    """

    def __init__(self, document: Document, *parts: Part, exit_code: int = 0) -> None:
        self.document = document
        self.parts = parts
        self.exit_code = exit_code


def show_answer(as_json: bool, document: Document, *parts: Part) -> None:
    """Print the answer of a command: the JSON document, or its readable parts."""
    if as_json:
        data = to_json(document() if callable(document) else document, by_alias=True, indent=2, inf_nan_mode="null")
        print(data.decode(), flush=True)
        return
    out = build_console(sys.stdout)
    shown = [each for part in parts for each in (part() if callable(part) else [part])]
    for before, part in zip([None, *shown], shown, strict=False):
        if before is not None and (isinstance(before, Table | LargeTable) or isinstance(part, Table | LargeTable)):
            out.print()
        out.print(part, soft_wrap=isinstance(part, str | Text | LargeTable))


def write_output(text: str) -> None:
    sys.stdout.write(text)


def print_message(text: str, *, style: str = "") -> None:
    """Print a message on standard error."""
    build_console(sys.stderr).print(Text(text, style=style), soft_wrap=True)


def print_json_message(document: Json) -> None:
    print(json.dumps(document, ensure_ascii=False), file=sys.stderr)


def render_list(
    title: str, columns: Columns[T], values: Iterable[T], now: float = 0.0, *, empty: str = "none"
) -> RenderableType:
    """Build a table of values; `empty` if there are none."""
    return build_table(title, [c.heading for c in columns], read_rows(columns, values, now), empty=empty)


def build_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "none"
) -> RenderableType:
    """Build a table; a heading that starts with '>' belongs to a column of numbers, aligned to the right."""
    row_list = list(rows)
    if not row_list:
        return Text(f"{title}: {empty}" if title else empty)
    if len(row_list) > MAX_WRAPPED_ROWS:
        names, numbers = [h.removeprefix(">") for h in headings], [h.startswith(">") for h in headings]
        return LargeTable(title, names, numbers, [list(map(_format_cell, row)) for row in row_list])
    table = Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.show_edge = table.pad_edge = False
    for heading in headings:
        is_number = heading.startswith(">")
        table.add_column(
            heading.removeprefix(">"), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold"
        )
    for row in row_list:
        table.add_row(*map(_format_cell, row))
    return table


def build_fields(pairs: Iterable[tuple[str, object]]) -> RenderableType:
    """Build a list of names and values, one pair per line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for name, value in pairs:
        grid.add_row(name, _format_cell(value))
    return grid


def _format_cell(value: object) -> Text | str:
    """Format a cell: styled text is kept, and each item of a list is a line."""
    match value:
        case Text():
            return value
        case TableCell():
            return Text(escape_controls(value.text), style=_STYLES.get(value.tone, ""))
        case None:
            return NONE
        case list() | tuple():
            return "\n".join(map(escape_controls, value)) or NONE
        case _:
            return escape_controls(value)


SHOW_AFTER = 1.0
"""Seconds after which the bar is shown."""


class ProgressBar:
    """Called with a description and the fraction done; shows the bar once the work has taken a while.

    A timer shows it, and not the next call: a task that takes an hour reports only its beginning.
    """

    def __init__(self, console: Console, show_after: float = SHOW_AFTER) -> None:
        self.shown = threading.Event()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("", total=1.0)
        self._timer = threading.Timer(show_after, self._show_bar) if console.is_terminal else None

    def __call__(self, description: str, fraction: float) -> None:
        self._progress.update(self._task, description=description, completed=fraction)

    def __enter__(self) -> ProgressBar:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self.shown.is_set():
            self._progress.stop()

    def _show_bar(self) -> None:
        self._progress.start()
        self.shown.set()
