"""Printing: JSON documents and tables on standard output, errors on standard error. No other module prints."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from tidemill.cli.formatting import NONE, escape_controls
from tidemill.model.codec import Json

_ENDLESS = 100_000
"""Columns of what is no terminal: nothing is cut that a program may read."""

Columns = Sequence[str]
"""Headings of a table; a heading that starts with '>' is that of a column of numbers, aligned to the right."""


def build_console(stream: IO[str]) -> Console:
    """Texts are printed as they are: what users name and store is neither markup nor an emoji."""
    width = None if stream.isatty() or "COLUMNS" in os.environ else _ENDLESS
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


def show_answer(as_json: bool, document: Json, *parts: RenderableType) -> None:
    """The answer of a command: the document, or what people read instead of it."""
    if as_json:
        print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False), flush=True)
        return
    out = build_console(sys.stdout)
    for before, part in zip([None, *parts], parts, strict=False):
        if before is not None and (isinstance(before, Table) or isinstance(part, Table)):
            out.print()
        out.print(part, soft_wrap=isinstance(part, str | Text))


def write_output(text: str) -> None:
    sys.stdout.write(text)


def print_message(text: str, *, style: str = "") -> None:
    """A message on standard error."""
    build_console(sys.stderr).print(Text(text, style=style), soft_wrap=True)


def print_json_message(document: Json) -> None:
    print(json.dumps(document, ensure_ascii=False), file=sys.stderr)


def build_table(
    title: str, columns: Columns, rows: Iterable[Sequence[object]], *, empty: str = "none"
) -> RenderableType:
    """Rows under headings; `empty` if there are none."""
    filled = list(rows)
    if not filled:
        return Text(f"{title}: {empty}" if title else empty)
    made = Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    made.show_edge = made.pad_edge = False
    for heading in columns:
        number = heading.startswith(">")
        made.add_column(
            heading.removeprefix(">"), justify="right" if number else "left", no_wrap=number, overflow="fold"
        )
    for row in filled:
        made.add_row(*map(_format_cell, row))
    return made


def build_fields(pairs: Iterable[tuple[str, object]]) -> RenderableType:
    """Names and values below each other."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column()
    for name, value in pairs:
        made.add_row(name, _format_cell(value))
    return made


def _format_cell(value: object) -> RenderableType:
    """Text stays as it was styled; several lines are kept as lines, in a list."""
    match value:
        case Text():
            return value
        case None:
            return NONE
        case list() | tuple():
            return "\n".join(map(escape_controls, value)) or NONE
        case _:
            return escape_controls(value)
