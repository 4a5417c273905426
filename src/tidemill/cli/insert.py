"""`insert` inserts a file; `push` pushes events to a running server, and `subscribe` prints a channel's changes."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from tidemill.cli import lazy_imports
from tidemill.cli.command import Tidemill
from tidemill.cli.output import Answer, ProgressBar, build_console, write_output
from tidemill.display.formatting import format_plural
from tidemill.errors import BadInput
from tidemill.model.block import BlockKind
from tidemill.runtime.runs.insert import InsertResult
from tidemill.wire.schemas import InsertDocument


def insert(
    mill: Tidemill,
    channel: Annotated[str, typer.Argument(help="The input channel.")],
    file: Annotated[Path, typer.Argument(help="CSV with a header, JSON lines or Parquet.")],
    format: Annotated[str | None, typer.Option(help="csv, jsonl or parquet; default: by suffix.")] = None,
    kind: Annotated[
        BlockKind, typer.Option(help="delta: a change of the content; base: the full content.")
    ] = BlockKind.DELTA,
    base: Annotated[bool, typer.Option("--base", help="Short for --kind base.")] = False,
    key: Annotated[str | None, typer.Option(help="Idempotency key: an insert with a known key does nothing.")] = None,
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


Url = Annotated[str, typer.Option("--url", envvar="TIDEMILL_URL", help="The server's address.")]
Token = Annotated[
    str | None, typer.Option("--token", envvar="TIDEMILL_TOKEN", help="Your token; better set in the environment.")
]
_DEFAULT_URL = "http://127.0.0.1:8484"


def push(
    channel: Annotated[str, typer.Argument(help="The input channel.")],
    producer: Annotated[
        str | None, typer.Option(help="A name: a number that it has pushed is never inserted again.")
    ] = None,
    first: Annotated[
        int | None, typer.Option(min=1, help="The number of the first line; default: after the last pushed one.")
    ] = None,
    url: Url = _DEFAULT_URL,
    token: Token = None,
) -> Answer:
    """Push events from standard input, one JSON object per line, as they arrive; ends when all are durable."""
    if first is not None and producer is None:
        raise BadInput("--first numbers the lines of a producer; name it with --producer")
    with lazy_imports.Client(url, token) as client:
        lines = (line for line in map(bytes.strip, sys.stdin.buffer) if line)
        last = client.push(channel, lines, producer=producer, first=first)
    return Answer({"channel": channel, "acknowledged": last}, f"everything up to number {last} is in {channel}")


def subscribe(
    channel: Annotated[str, typer.Argument(help="The channel.")],
    after: Annotated[int | None, typer.Option(min=0, help="A block's sequence number; default: from now on.")] = None,
    columns: Annotated[str, typer.Option(help="Only these columns, separated by commas.")] = "",
    where: Annotated[
        list[str] | None, typer.Option(help="Only rows that meet this condition, such as 'price >= 10'.")
    ] = None,
    offset_file: Annotated[
        Path | None, typer.Option(help="A file that stores the offset, to continue from it later.")
    ] = None,
    blocks: Annotated[int | None, typer.Option(min=1, help="End after this many blocks.")] = None,
    url: Url = _DEFAULT_URL,
    token: Token = None,
) -> None:
    """Print the rows of each new block of a channel, one JSON object per line, until it is stopped."""
    start = after if after is not None else _read_offset(offset_file)
    column_names = tuple(name for name in columns.split(",") if name)
    with lazy_imports.Client(url, token) as client:
        for number, block in enumerate(
            client.subscribe(channel, after=start, columns=column_names, where=where or ()), start=1
        ):
            write_output("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in block.rows))
            sys.stdout.flush()
            if offset_file is not None:
                offset_file.write_text(f"{block.block}\n")
            if number == blocks:
                return


def _read_offset(offset_file: Path | None) -> int | None:
    if offset_file is None or not offset_file.exists():
        return None
    text = offset_file.read_text().strip()
    if not text.isdecimal():
        raise BadInput(
            f"expected an offset in {offset_file}, found {text[:40]!r}; delete the file, or name another one"
        )
    return int(text)
