"""`compact`, `gc` and `upkeep`: keeping storage small and reading cheap."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill import documents
from tidemill.cli import tables
from tidemill.cli.options import AsJson, opened
from tidemill.cli.output import show, table
from tidemill.cli.values import plural
from tidemill.model.block import Block
from tidemill.model.run import UNDER_WAY, RunKind
from tidemill.runtime.upkeep import PAUSED, WISH, is_paused

if TYPE_CHECKING:
    from tidemill.app import Tidemill


def register(app: typer.Typer) -> None:
    app.command()(compact)
    app.command()(gc)
    app.command()(upkeep)


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


def upkeep(
    ctx: typer.Context,
    pause: Annotated[bool, typer.Option("--pause", help="Begin no compaction or collection, on any server.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on after a pause.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show whether channels are compacted and collected unasked, what is under way and what is due; or stop it.

    What is in the middle of a step goes on to the end of it; `tidemill kill RUN` stops a compaction at once.
    """
    if pause and resume:
        raise typer.BadParameter("say --pause or --resume, not both")
    with opened(ctx) as mill:
        if pause or resume:
            mill.catalog.wish({WISH: PAUSED if pause else None})
        paused, automatic = is_paused(mill.catalog), mill.settings.upkeep.automatic
        running = [r for state in UNDER_WAY for r in mill.catalog.runs(state=state) if r.kind is RunKind.COMPACTION]
        found = {name: mill.compaction(name) for name in _all(mill)}
    document = {
        "automatic": automatic,
        "paused": paused,
        "under_way": [documents.run(r) for r in running],
        "channels": [{"channel": name, "compaction": said} for name, said in found.items()],
    }
    due = table("channels", ("channel", "compaction"), found.items(), empty="nothing was written yet")
    show(as_json, document, _upkeep(automatic, paused), tables.runs("under way", running, time.time()), due)


def _upkeep(automatic: bool, paused: bool) -> str:
    if not automatic:
        return "upkeep is not automatic: the settings say so ([upkeep] automatic = false)"
    return "upkeep is paused; go on with: tidemill upkeep --resume" if paused else "upkeep is automatic"
