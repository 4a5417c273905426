"""`compact`, `gc` and `maintenance`: maintenance of storage; `adopt-store`: the ownership of the store."""

import sys
from typing import Annotated

import typer

from tidemill.app import maintenance as app
from tidemill.cli import lazy_imports
from tidemill.cli.command import AsJson, Tidemill, find_start
from tidemill.cli.output import Answer, build_table, render_list
from tidemill.display import columns
from tidemill.display.formatting import format_plural
from tidemill.model.block import Block
from tidemill.wire import server_schemas as schemas


def compact(
    mill: Tidemill,
    channels: Annotated[list[str] | None, typer.Argument(help="The channels to compact.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Compact every channel.")] = False,
) -> Answer:
    """Merge a channel's deltas into a base, so that reads are cheap. Its content does not change."""
    if bool(channels) == everything:
        raise typer.BadParameter("name the channels to compact, or use --all")
    written = {name: mill.compact(name) for name in channels or app.list_written_channels(mill)}
    document = schemas.CompactionListDocument.build(compacted=list(written.items()))
    return Answer(document, *(f"{name}: {_format_compaction(block)}" for name, block in written.items()))


def _format_compaction(block: Block | None) -> str:
    if block is None:
        return "nothing to merge"
    return f"{format_plural(block.rows, 'row')} in block {block.id} at {block.seq}"


def gc(
    mill: Tidemill,
    retain: Annotated[
        str | None, typer.Option(help="How long contents stay readable, e.g. '7 days'; default: only now.")
    ] = None,
    grace: Annotated[
        str | None, typer.Option(help="Minimum age of marks on files, e.g. '0s'; default: as in the settings.")
    ] = None,
    scan: Annotated[
        bool, typer.Option("--scan", help="List the whole store, and mark unreferenced files that runs left.")
    ] = False,
) -> Answer:
    """Garbage-collect blocks that no reader needs, and remove files whose grace period is over."""
    document = app.collect_garbage(mill, retain, grace, scan=scan)
    return Answer(document, *_format_collection(document))


def _format_collection(collected: schemas.CollectionDocument) -> list[str]:
    lines = [
        f"garbage-collected {format_plural(collected.blocks, 'block')}, "
        f"marked {format_plural(collected.marked, 'file')}, removed {collected.files}"
    ]
    if collected.reclaimed:
        lines.append(f"reclaimed {format_plural(collected.reclaimed, 'run')} whose process had died")
    if collected.scan is not None:
        lines.append(_format_scan(collected.scan))
    return lines


def _format_scan(result: schemas.StoreScanDocument) -> str:
    marked = format_plural(result.marked, "file")
    summary = f"scanned {format_plural(result.attempts, 'attempt')}, marked {marked} that nothing references"
    return summary + (f"; ignored {format_plural(result.unknown, 'unknown attempt')}" if result.unknown else "")


def adopt_store(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> Answer:
    """Make this project's catalog the owner of the block store, regardless of its previous owner. Nothing is deleted.

    On a terminal it asks first, unless --yes or --json is given. Needed after an older copy of the catalog was restored
    permanently, or when a store is passed to another catalog.
    """
    if not (yes or as_json) and sys.stdin.isatty():
        typer.confirm("Blocks that this project's catalog does not reference become unreadable. Adopt?", abort=True)
    before = lazy_imports.Tidemill.adopt_store(find_start(ctx))
    previous = "had no owner" if before is None else f"belonged to catalog {before.catalog}"
    return Answer({"before": before and before.catalog}, f"the block store {previous}; it is this catalog's now")


def maintenance(
    mill: Tidemill,
    pause: Annotated[bool, typer.Option("--pause", help="Start no compaction or collection, on any server.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue after a pause.")] = False,
    now: Annotated[bool, typer.Option("--run", help="Do the maintenance that is due now, also while paused.")] = False,
) -> Answer:
    """Show whether maintenance is automatic, which compactions are running and which are due; or pause or run it.

    A step in progress continues to its end; `tidemill kill RUN` stops a compaction at once.
    """
    if pause + resume + now > 1:
        raise typer.BadParameter("use one of --pause, --resume and --run")
    if now:
        result = app.run_maintenance(mill)
        return Answer(result, _format_result(result), *result.problems)
    if pause or resume:
        app.pause_maintenance(mill, paused=pause)
    document = app.read_maintenance(mill)
    rows = ((c.channel, c.compaction) for c in document.channels)
    return Answer(
        document,
        _format_maintenance_state(document.automatic, document.paused),
        render_list("running", columns.RUN, app.list_active_compactions(mill), mill.catalog.read_time()),
        build_table("channels", ("channel", "compaction"), rows, empty="nothing was written yet"),
    )


def _format_result(result: schemas.MaintenanceResultDocument) -> str:
    compacted = format_plural(len(result.minor_compactions) + len(result.major_compactions), "compaction")
    return (
        f"{compacted}, garbage-collected {format_plural(result.collected.blocks, 'block')}, "
        f"removed {format_plural(result.collected.files, 'file')}, expired {format_plural(result.expired.runs, 'run')}"
    )


def _format_maintenance_state(automatic: bool, paused: bool) -> str:
    if not automatic:
        return "maintenance is not automatic: the settings say so ([maintenance] automatic = false)"
    return "maintenance is paused; resume with: tidemill maintenance --resume" if paused else "maintenance is automatic"
