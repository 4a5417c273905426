"""`read`: the content of a channel, now or at an earlier position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from tidemill.cli.formatting import format_plural
from tidemill.cli.options import AsJson, open_project
from tidemill.cli.output import build_table, show_answer, write_output
from tidemill.encoding.values import format_csv_line, is_number, to_json, to_text
from tidemill.model.codec import Json
from tidemill.model.schema import Field, Schema

DEFAULT_ROWS = 20
"""Default number of rows that a table shows."""


class OutputFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class ChannelContent:
    """Rows of a channel; `more` if there are others."""

    channel: str
    columns: Sequence[Field]
    rows: Sequence[Json]
    more: bool


def register_commands(app: typer.Typer) -> None:
    app.command()(read)


def read(
    ctx: typer.Context,
    channel: Annotated[str, typer.Argument(help="The channel to read.")],
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="A sequence number, or a time in UTC like '2026-05-01 12:00'.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=0, help=f"Maximum number of rows; default: all, or {DEFAULT_ROWS} in a table."),
    ] = None,
    format: Annotated[OutputFormat, typer.Option("--format", help="The output format.")] = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """Print the content of a channel, now or as of a sequence number or a time. The rows are in no order."""
    output_format = OutputFormat.JSON if as_json else format
    row_limit = DEFAULT_ROWS if limit is None and output_format is OutputFormat.TABLE else limit
    with open_project(ctx) as mill:
        # One row more than requested shows whether there are others.
        rows = mill.rows(channel, as_of, None if row_limit is None else row_limit + 1)
        schema = mill.catalog.read_channel(channel).channel.schema or Schema(())
    _print_content(
        ChannelContent(channel, schema.fields, rows[:row_limit], row_limit is not None and len(rows) > row_limit),
        output_format,
    )


def _print_content(content: ChannelContent, format: OutputFormat) -> None:
    if format is OutputFormat.CSV:
        write_output(_render_csv(content))
    else:
        show_answer(
            format is OutputFormat.JSON, _build_document(content), _render_table(content), _format_row_count(content)
        )


def _build_document(content: ChannelContent) -> Json:
    rows = [{f.name: to_json(r[f.name], f.data_type) for f in content.columns} for r in content.rows]
    return {"channel": content.channel, "rows": rows, "more": content.more}


def _render_csv(content: ChannelContent) -> str:
    header = format_csv_line(f.name for f in content.columns)
    rows = (format_csv_line(_format_value(r[f.name], f) for f in content.columns) for r in content.rows)
    return "".join(f"{line}\n" for line in (header, *rows))


def _render_table(content: ChannelContent) -> RenderableType:
    headings = [f">{f.name}" if is_number(f) else f.name for f in content.columns]
    rows = ([_style_cell(_format_value(r[f.name], f)) for f in content.columns] for r in content.rows)
    return build_table("", headings, rows, empty=", ".join(f.name for f in content.columns))


def _format_value(value: Any, field: Field) -> str | None:
    return None if value is None else to_text(value, field.data_type)


def _style_cell(text: str | None) -> object:
    return Text("NULL", style="dim") if text is None else text


def _format_row_count(content: ChannelContent) -> str:
    count = format_plural(len(content.rows), "row")
    return f"{count}; there are more, see them with --limit" if content.more else count
