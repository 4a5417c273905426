"""`insert`: inserts a file into an input channel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.output import Answer, build_console
from tidemill.cli.progress import ProgressBar
from tidemill.display.formatting import format_plural
from tidemill.model.block import BlockKind
from tidemill.runtime.runs.insert import InsertResult
from tidemill.wire.schemas import InsertDocument

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill


def insert(
    mill: Tidemill,
    channel: Annotated[str, typer.Argument(help="The input channel.")],
    file: Annotated[Path, typer.Argument(help="CSV with a header, JSON lines or Parquet.")],
    format: Annotated[str | None, typer.Option("--format", help="csv, jsonl or parquet; default: by suffix.")] = None,
    kind: Annotated[
        BlockKind, typer.Option("--kind", help="delta: a change of the content; base: the full content.")
    ] = BlockKind.DELTA,
    base: Annotated[bool, typer.Option("--base", help="Short for --kind base.")] = False,
    key: Annotated[
        str | None, typer.Option("--key", help="Idempotency key: an insert with a known key does nothing.")
    ] = None,
) -> Answer:
    """Insert a file into an input channel: all of its rows, or none."""
    with ProgressBar(build_console(sys.stderr)) as bar:
        result = mill.insert(channel, file, format=format, kind=BlockKind.BASE if base else kind, key=key, progress=bar)
    return Answer(InsertDocument.model_validate(result), _format_result(result))


def _format_result(result: InsertResult) -> str:
    block = result.block
    location = f"block {block.id} at {block.seq} of {block.channel}"
    if result.repeated:
        return f"an earlier insert with this key wrote {location}; nothing was inserted"
    return f"inserted {format_plural(block.rows, 'row')} as {location}"
