"""`compact`, `gc` and `maintenance`: maintenance of storage; `adopt-store`: the ownership of the store."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.lazy_imports import load_tidemill_class
from tidemill.cli.options import AsJson, find_start
from tidemill.cli.output import Answer, build_table, render_list
from tidemill.display import columns
from tidemill.display.formatting import format_plural
from tidemill.model.block import Block
from tidemill.model.run import ACTIVE_STATES, RunKind
from tidemill.runtime.maintenance.service import OVERRIDE, PAUSED, is_paused
from tidemill.runtime.maintenance.vacuum import ScanResult, VacuumService
from tidemill.wire.command_schemas import CompactionListDocument, MaintenanceDocument

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill


def compact(
    mill: Tidemill,
    channels: Annotated[list[str] | None, typer.Argument(help="The channels to compact.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Compact every channel.")] = False,
) -> Answer:
    """Merge a channel's deltas into a base, so that reads are cheap. Its content does not change."""
    if bool(channels) == everything:
        raise typer.BadParameter("name the channels to compact, or use --all")
    written = {name: mill.compact(name) for name in channels or _list_written_channels(mill)}
    document = CompactionListDocument.build(compacted=list(written.items()))
    return Answer(document, *(f"{name}: {_format_compaction(block)}" for name, block in written.items()))


def _list_written_channels(mill: Tidemill) -> list[str]:
    """List every channel that has a schema: one without has no data yet."""
    return [c.channel.name for c in mill.catalog.channels.list() if c.channel.schema is not None]


def _format_compaction(block: Block | None) -> str:
    return (
        "nothing to merge"
        if block is None
        else f"{format_plural(block.rows, 'row')} in block {block.id} at {block.seq}"
    )


def gc(
    mill: Tidemill,
    retain: Annotated[
        str | None, typer.Option("--retain", help="How long contents stay readable, e.g. '7 days'; default: only now.")
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option("--grace", help="Minimum age of marks on files, e.g. '0s'; default: as in the settings."),
    ] = None,
    scan: Annotated[
        bool, typer.Option("--scan", help="List the whole store, and mark unreferenced files that runs left.")
    ] = False,
) -> Answer:
    """Garbage-collect blocks that no reader needs, and remove files whose grace period is over."""
    scanned = VacuumService(mill.executor).scan_store() if scan else None
    collected = mill.collect(retain, grace)
    lines = [
        f"garbage-collected {format_plural(collected.blocks, 'block')}, "
        f"marked {format_plural(collected.marked, 'file')}, removed {collected.files}"
    ]
    if collected.reclaimed:
        lines.append(f"reclaimed {format_plural(collected.reclaimed, 'run')} whose process had died")
    if scanned is not None:
        lines.append(_format_scan(scanned))
    return Answer(asdict(collected) | {"scan": scanned}, *lines)


def _format_scan(result: ScanResult) -> str:
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
    before = load_tidemill_class().adopt_store(find_start(ctx))
    previous = "had no owner" if before is None else f"belonged to catalog {before.catalog}"
    return Answer({"before": before and before.catalog}, f"the block store {previous}; it is this catalog's now")


def maintenance(
    mill: Tidemill,
    pause: Annotated[bool, typer.Option("--pause", help="Start no compaction or collection, on any server.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue after a pause.")] = False,
) -> Answer:
    """Show whether maintenance is automatic, which compactions are running and which are due; or pause it.

    A step in progress continues to its end; `tidemill kill RUN` stops a compaction at once.
    """
    if pause and resume:
        raise typer.BadParameter("use --pause or --resume, not both")
    if pause or resume:
        mill.catalog.servers.override_settings({OVERRIDE: PAUSED if pause else None})
    paused, automatic = is_paused(mill.catalog.servers), mill.settings.maintenance.automatic
    running = [
        r for state in ACTIVE_STATES for r in mill.catalog.runs.list(state=state) if r.kind is RunKind.COMPACTION
    ]
    compactions = {name: mill.compaction(name) for name in _list_written_channels(mill)}
    now = mill.catalog.read_time()
    return Answer(
        MaintenanceDocument.build(
            automatic=automatic, paused=paused, active=running, channels=list(compactions.items())
        ),
        _format_maintenance_state(automatic, paused),
        render_list("running", columns.RUN, running, now),
        build_table("channels", ("channel", "compaction"), compactions.items(), empty="nothing was written yet"),
    )


def _format_maintenance_state(automatic: bool, paused: bool) -> str:
    if not automatic:
        return "maintenance is not automatic: the settings say so ([maintenance] automatic = false)"
    return "maintenance is paused; resume with: tidemill maintenance --resume" if paused else "maintenance is automatic"
