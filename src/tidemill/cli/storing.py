"""`compact` and `gc`: keeping storage small and reading cheap."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill import documents
from tidemill.cli.options import AsJson, opened
from tidemill.cli.output import show
from tidemill.cli.values import plural
from tidemill.model.block import Block

if TYPE_CHECKING:
    from tidemill.app import Tidemill


def register(app: typer.Typer) -> None:
    app.command()(compact)
    app.command()(gc)


def compact(
    ctx: typer.Context,
    channels: Annotated[list[str] | None, typer.Argument(help="The channels to compact.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Compact every channel.")] = False,
    as_json: AsJson = False,
) -> None:
    """Merge a channel's deltas into a base, so that reading it is cheap. What it holds stays the same."""
    if bool(channels) == everything:
        raise typer.BadParameter("name the channels to compact, or say --all")
    with opened(ctx) as mill:
        made = {name: mill.compact(name) for name in channels or _all(mill)}
    document = {"compacted": [{"channel": n, "block": b and documents.block(b)} for n, b in made.items()]}
    show(as_json, document, *(f"{name}: {_compacted(block)}" for name, block in made.items()))


def _all(mill: Tidemill) -> list[str]:
    """Every channel that has a schema: nothing was written yet to one without."""
    return [c.channel.name for c in mill.catalog.channels() if c.channel.schema is not None]


def _compacted(block: Block | None) -> str:
    return "nothing to merge" if block is None else f"{plural(block.rows, 'row')} in block {block.id} at {block.seq}"


def gc(
    ctx: typer.Context,
    keep: Annotated[
        str | None, typer.Option("--keep", help="How far back to stay readable, e.g. '7 days'; else only now.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Delete blocks and files that nobody can need any more."""
    with opened(ctx) as mill:
        gone = mill.collect(keep)
    freed = f"deleted {plural(gone.blocks, 'block')} and {plural(gone.files, 'file')}"
    lost = f"gave up {plural(gone.reclaimed, 'run')} whose process had died"
    show(as_json, asdict(gone), freed, *([lost] if gone.reclaimed else []))
