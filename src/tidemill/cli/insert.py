"""`insert`: data from a file into an input channel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tidemill.app import serialization
from tidemill.cli.formatting import plural
from tidemill.cli.options import AsJson, opened
from tidemill.cli.output import console, show
from tidemill.cli.progress import Bar
from tidemill.model.block import Kind
from tidemill.runtime.runs.insert import Inserted


def register(app: typer.Typer) -> None:
    app.command()(insert)


def insert(
    ctx: typer.Context,
    channel: Annotated[str, typer.Argument(help="The input channel.")],
    file: Annotated[Path, typer.Argument(help="CSV with a header, JSON lines or Parquet.")],
    format: Annotated[str | None, typer.Option("--format", help="csv, jsonl or parquet; else by the name.")] = None,
    kind: Annotated[Kind, typer.Option("--kind", help="delta: a change to the content; base: all of it.")] = Kind.DELTA,
    base: Annotated[bool, typer.Option("--base", help="Short for --kind base.")] = False,
    key: Annotated[
        str | None, typer.Option("--key", help="A name for this insert: repeated with the same key, it does nothing.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Insert a file into an input channel: all of its rows, or none."""
    with opened(ctx) as mill, Bar(console(sys.stderr)) as bar:
        done = mill.insert(channel, file, format=format, kind=Kind.BASE if base else kind, key=key, progress=bar)
    document = {"block": serialization.block(done.block), "repeated": done.repeated}
    show(as_json, document, _said(done))


def _said(done: Inserted) -> str:
    block = done.block
    at = f"block {block.id} at {block.seq} of {block.channel}"
    if done.repeated:
        return f"an earlier insert with this key had made {at}; nothing was inserted"
    return f"inserted {plural(block.rows, 'row')} as {at}"
