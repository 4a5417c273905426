"""`read`: the content of a channel, now or as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from tidemill.cli.formatting import plural
from tidemill.cli.options import AsJson, opened
from tidemill.cli.output import show, table, write
from tidemill.encoding.values import csv_line, is_number, to_json, to_text
from tidemill.model.codec import Json
from tidemill.model.schema import Field, Schema

SCREENFUL = 20
"""Rows that a table shows unless told otherwise."""


class Format(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Content:
    """Rows of a channel; `more` if there are others."""

    channel: str
    columns: Sequence[Field]
    rows: Sequence[Json]
    more: bool


def register(app: typer.Typer) -> None:
    app.command()(read)


def read(
    ctx: typer.Context,
    channel: Annotated[str, typer.Argument(help="The channel to read.")],
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="A sequence number, or a time in UTC like '2026-05-01 12:00'.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=0, help=f"How many rows at most; else all, or {SCREENFUL} in a table."),
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="How to print the rows.")] = Format.TABLE,
    as_json: AsJson = False,
) -> None:
    """Print the content of a channel, now or as of a sequence number or a time. The rows are in no order."""
    chosen = Format.JSON if as_json else format
    shown = SCREENFUL if limit is None and chosen is Format.TABLE else limit
    with opened(ctx) as mill:
        # One row more than wanted tells whether there are others.
        rows = mill.rows(channel, as_of, None if shown is None else shown + 1)
        schema = mill.catalog.channel(channel).channel.schema or Schema(())
    _print(Content(channel, schema.fields, rows[:shown], shown is not None and len(rows) > shown), chosen)


def _print(content: Content, format: Format) -> None:
    if format is Format.CSV:
        write(_csv(content))
    else:
        show(format is Format.JSON, _document(content), _table(content), _count(content))


def _document(content: Content) -> Json:
    rows = [{f.name: to_json(r[f.name], f.parsed) for f in content.columns} for r in content.rows]
    return {"channel": content.channel, "rows": rows, "more": content.more}


def _csv(content: Content) -> str:
    header = csv_line(f.name for f in content.columns)
    rows = (csv_line(_text(r[f.name], f) for f in content.columns) for r in content.rows)
    return "".join(f"{line}\n" for line in (header, *rows))


def _table(content: Content) -> RenderableType:
    headings = [f">{f.name}" if is_number(f) else f.name for f in content.columns]
    rows = ([_cell(_text(r[f.name], f)) for f in content.columns] for r in content.rows)
    return table("", headings, rows, empty=", ".join(f.name for f in content.columns))


def _text(value: Any, field: Field) -> str | None:
    return None if value is None else to_text(value, field.parsed)


def _cell(text: str | None) -> object:
    return Text("NULL", style="dim") if text is None else text


def _count(content: Content) -> str:
    count = plural(len(content.rows), "row")
    return f"{count}; there are more, see them with --limit" if content.more else count
