"""`read`: the content of a channel, now or at an earlier position."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from tidemill.app import serialization
from tidemill.cli.command import AsJson, Tidemill
from tidemill.cli.output import Answer, build_table, show_answer, write_output
from tidemill.display.formatting import format_plural
from tidemill.encoding.values import format_csv_line, is_number, to_text
from tidemill.model.schema import Schema

DEFAULT_ROWS = 20
"""Default number of rows that a table shows."""


class OutputFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def read(
    mill: Tidemill,
    channel: Annotated[str, typer.Argument(help="The channel to read.")],
    as_of: Annotated[
        str | None, typer.Option(help="A sequence number, or a time in UTC like '2026-05-01 12:00'.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help=f"Maximum number of rows; default: all, or {DEFAULT_ROWS} in a table.")
    ] = None,
    format: Annotated[OutputFormat, typer.Option(help="The output format.")] = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> Answer | None:
    """Print the content of a channel, now or as of a sequence number or a time. The rows are in no order."""
    row_limit = DEFAULT_ROWS if limit is None and format is OutputFormat.TABLE and not as_json else limit
    # One row more than requested shows whether there are others.
    rows = mill.rows(channel, as_of, None if row_limit is None else row_limit + 1)
    schema = mill.catalog.channels.read(channel).channel.schema or Schema(())
    document = serialization.serialize_rows(channel, schema, rows, row_limit)
    cells = [[(row[field.name], field.data_type) for field in schema] for row in rows[:row_limit]]
    texts = [[None if value is None else to_text(value, kind) for value, kind in line] for line in cells]
    if format is OutputFormat.CSV and not as_json:
        write_output("".join(f"{format_csv_line(line)}\n" for line in (schema.names, *texts)))
        return None
    if format is OutputFormat.JSON and not as_json:
        show_answer(True, document)
        return None
    hint = "; there are more, see them with --limit" if document.more else ""
    return Answer(document, _render_table(schema, texts), f"{format_plural(len(texts), 'row')}{hint}")


def _render_table(schema: Schema, texts: Sequence[Sequence[str | None]]) -> RenderableType:
    headings = [f">{field.name}" if is_number(field) else field.name for field in schema]
    rows = ([Text("NULL", style="dim") if text is None else text for text in line] for line in texts)
    return build_table("", headings, rows, empty=", ".join(schema.names))
