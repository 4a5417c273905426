"""`compact`, `gc` and `maintenance`: maintenance of storage; `adopt-store`: the ownership of the store."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.app import serialization
from tidemill.cli import tables
from tidemill.cli.formatting import format_plural
from tidemill.cli.lazy_imports import load_tidemill_class
from tidemill.cli.options import AsJson, find_start, open_project
from tidemill.cli.output import build_table, show_answer
from tidemill.model.block import Block
from tidemill.model.run import ACTIVE_STATES, RunKind
from tidemill.runtime.maintenance.service import OVERRIDE, PAUSED, is_paused
from tidemill.runtime.maintenance.vacuum import ScanResult

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill


def register_commands(app: typer.Typer) -> None:
    app.command()(compact)
    app.command()(gc)
    app.command()(maintenance)
    app.command("adopt-store")(adopt_store)


def compact(
    ctx: typer.Context,
    channels: Annotated[list[str] | None, typer.Argument(help="The channels to compact.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Compact every channel.")] = False,
    as_json: AsJson = False,
) -> None:
    """Merge a channel's deltas into a base, so that reads are cheap. Its content does not change."""
    if bool(channels) == everything:
        raise typer.BadParameter("name the channels to compact, or use --all")
    with open_project(ctx) as mill:
        written = {name: mill.compact(name) for name in channels or _list_written_channels(mill)}
    document = {
        "compacted": [{"channel": n, "block": b and serialization.serialize_block(b)} for n, b in written.items()]
    }
    show_answer(as_json, document, *(f"{name}: {_format_compaction(block)}" for name, block in written.items()))


def _list_written_channels(mill: Tidemill) -> list[str]:
    """List every channel that has a schema: one without has no data yet."""
    return [c.channel.name for c in mill.catalog.list_channels() if c.channel.schema is not None]


def _format_compaction(block: Block | None) -> str:
    return (
        "nothing to merge"
        if block is None
        else f"{format_plural(block.rows, 'row')} in block {block.id} at {block.seq}"
    )


def gc(
    ctx: typer.Context,
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
    as_json: AsJson = False,
) -> None:
    """Garbage-collect blocks that no reader needs, and remove files whose grace period is over."""
    with open_project(ctx) as mill:
        scanned = mill.scan() if scan else None
        collected = mill.collect(retain, grace)
    lines = [
        f"garbage-collected {format_plural(collected.blocks, 'block')}, "
        f"marked {format_plural(collected.marked, 'file')}, removed {collected.files}"
    ]
    if collected.reclaimed:
        lines.append(f"reclaimed {format_plural(collected.reclaimed, 'run')} whose process had died")
    if scanned is not None:
        lines.append(_format_scan(scanned))
    show_answer(as_json, asdict(collected) | {"scan": scanned and asdict(scanned)}, *lines)


def _format_scan(result: ScanResult) -> str:
    marked = format_plural(result.marked, "file")
    summary = f"scanned {format_plural(result.attempts, 'attempt')}, marked {marked} that nothing references"
    return summary + (f"; ignored {format_plural(result.unknown, 'unknown attempt')}" if result.unknown else "")


def adopt_store(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make this project's catalog the owner of the block store, regardless of its previous owner. Nothing is deleted.

    On a terminal it asks first, unless --yes or --json is given. Needed after an older copy of the catalog was restored
    permanently, or when a store is passed to another catalog.
    """
    if not (yes or as_json) and sys.stdin.isatty():
        typer.confirm("Blocks that this project's catalog does not reference become unreadable. Adopt?", abort=True)
    before = load_tidemill_class().adopt_store(find_start(ctx))
    previous = "had no owner" if before is None else f"belonged to catalog {before.catalog}"
    show_answer(as_json, {"before": before and before.catalog}, f"the block store {previous}; it is this catalog's now")


def maintenance(
    ctx: typer.Context,
    pause: Annotated[bool, typer.Option("--pause", help="Start no compaction or collection, on any server.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue after a pause.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show whether maintenance is automatic, which compactions are running and which are due; or pause it.

    A step in progress continues to its end; `tidemill kill RUN` stops a compaction at once.
    """
    if pause and resume:
        raise typer.BadParameter("use --pause or --resume, not both")
    with open_project(ctx) as mill:
        if pause or resume:
            mill.catalog.override_settings({OVERRIDE: PAUSED if pause else None})
        paused, automatic = is_paused(mill.catalog), mill.settings.maintenance.automatic
        running = [
            r for state in ACTIVE_STATES for r in mill.catalog.list_runs(state=state) if r.kind is RunKind.COMPACTION
        ]
        compactions = {name: mill.compaction(name) for name in _list_written_channels(mill)}
        now = mill.catalog.read_time()
    document = {
        "automatic": automatic,
        "paused": paused,
        "active": [serialization.serialize_run(r) for r in running],
        "channels": [{"channel": name, "compaction": decision} for name, decision in compactions.items()],
    }
    due = build_table("channels", ("channel", "compaction"), compactions.items(), empty="nothing was written yet")
    show_answer(
        as_json,
        document,
        _format_maintenance_state(automatic, paused),
        tables.render_runs("running", running, now),
        due,
    )


def _format_maintenance_state(automatic: bool, paused: bool) -> str:
    if not automatic:
        return "maintenance is not automatic: the settings say so ([maintenance] automatic = false)"
    return "maintenance is paused; resume with: tidemill maintenance --resume" if paused else "maintenance is automatic"
