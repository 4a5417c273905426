"""`compact`, `gc` and `upkeep`: keeping storage small and reading cheap; `adopt-store`: whose the store is."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.app import serialization
from tidemill.cli import tables
from tidemill.cli.formatting import format_plural
from tidemill.cli.lazy_imports import load_tidemill_class
from tidemill.cli.options import AsJson, opened, start_of
from tidemill.cli.output import build_table, show_answer
from tidemill.model.block import Block
from tidemill.model.run import UNDER_WAY, RunKind
from tidemill.runtime.maintenance.service import PAUSED, WISH, is_paused
from tidemill.runtime.maintenance.vacuum import ScanResult

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill


def register_commands(app: typer.Typer) -> None:
    app.command()(compact)
    app.command()(gc)
    app.command()(upkeep)
    app.command("adopt-store")(adopt_store)


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
        made = {name: mill.compact(name) for name in channels or _list_written_channels(mill)}
    document = {"compacted": [{"channel": n, "block": b and serialization.serialize_block(b)} for n, b in made.items()]}
    show_answer(as_json, document, *(f"{name}: {_format_compaction(block)}" for name, block in made.items()))


def _list_written_channels(mill: Tidemill) -> list[str]:
    """Every channel that has a schema: nothing was written yet to one without."""
    return [c.channel.name for c in mill.catalog.list_channels() if c.channel.schema is not None]


def _format_compaction(block: Block | None) -> str:
    return (
        "nothing to merge"
        if block is None
        else f"{format_plural(block.rows, 'row')} in block {block.id} at {block.seq}"
    )


def gc(
    ctx: typer.Context,
    keep: Annotated[
        str | None, typer.Option("--keep", help="How far back to stay readable, e.g. '7 days'; else only now.")
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option("--grace", help="How long ago files must have been marked, e.g. '0s'; else as in the settings."),
    ] = None,
    scan: Annotated[
        bool, typer.Option("--scan", help="List the whole store, and mark what runs left in it and nothing names.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Collect blocks that nobody can need any more, and remove files that were marked for it long enough ago."""
    with opened(ctx) as mill:
        found = mill.scan() if scan else None
        gone = mill.collect(keep, grace)
    lines = [
        f"collected {format_plural(gone.blocks, 'block')}, "
        f"marked {format_plural(gone.marked, 'file')}, removed {gone.files}"
    ]
    if gone.reclaimed:
        lines.append(f"gave up {format_plural(gone.reclaimed, 'run')} whose process had died")
    if found is not None:
        lines.append(_format_scan(found))
    show_answer(as_json, asdict(gone) | {"scan": found and asdict(found)}, *lines)


def _format_scan(found: ScanResult) -> str:
    marked = format_plural(found.marked, "file")
    looked = f"scanned {format_plural(found.attempts, 'attempt')}, marked {marked} that nothing names"
    return looked + (f"; left {format_plural(found.unknown, 'unknown attempt')} alone" if found.unknown else "")


def adopt_store(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let the block store belong to this project's catalog, whatever it belonged to before. Nothing is deleted.

    On a terminal it asks first, unless --yes or --json is given. Needed after an older copy of the catalog was
    restored for good, or when a store is handed over to another catalog.
    """
    if not (yes or as_json) and sys.stdin.isatty():
        typer.confirm("Blocks that this project's catalog does not name can no longer be read. Adopt?", abort=True)
    before = load_tidemill_class().adopt_store(start_of(ctx))
    belonged = "had no owner" if before is None else f"belonged to catalog {before.catalog}"
    show_answer(as_json, {"before": before and before.catalog}, f"the block store {belonged}; it is this catalog's now")


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
            mill.catalog.override_settings({WISH: PAUSED if pause else None})
        paused, automatic = is_paused(mill.catalog), mill.settings.upkeep.automatic
        running = [
            r for state in UNDER_WAY for r in mill.catalog.list_runs(state=state) if r.kind is RunKind.COMPACTION
        ]
        found = {name: mill.compaction(name) for name in _list_written_channels(mill)}
        now = mill.catalog.read_time()
    document = {
        "automatic": automatic,
        "paused": paused,
        "under_way": [serialization.serialize_run(r) for r in running],
        "channels": [{"channel": name, "compaction": said} for name, said in found.items()],
    }
    due = build_table("channels", ("channel", "compaction"), found.items(), empty="nothing was written yet")
    show_answer(
        as_json,
        document,
        _format_maintenance_state(automatic, paused),
        tables.render_runs("under way", running, now),
        due,
    )


def _format_maintenance_state(automatic: bool, paused: bool) -> str:
    if not automatic:
        return "upkeep is not automatic: the settings say so ([upkeep] automatic = false)"
    return "upkeep is paused; go on with: tidemill upkeep --resume" if paused else "upkeep is automatic"
