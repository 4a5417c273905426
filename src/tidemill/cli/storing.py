"""`compact`, `gc` and `storage`: keeping storage small and reading cheap."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from tidemill import documents
from tidemill.cli.options import AsJson, opened
from tidemill.cli.output import fields, show, table
from tidemill.cli.values import NONE, ago, lasted, plural, size
from tidemill.errors import BadInput, CannotFree
from tidemill.model.block import Block
from tidemill.model.size import bytes_in
from tidemill.model.submission import StoredDataset
from tidemill.runtime.stored import Kept, Storage

if TYPE_CHECKING:
    from tidemill.app import Tidemill


def register(app: typer.Typer) -> None:
    app.command()(compact)
    app.command()(gc)
    app.command()(storage)


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


def storage(
    ctx: typer.Context,
    free: Annotated[
        str | None, typer.Option("--free", metavar="BYTES", help="Evict so much now, e.g. '2 GB'.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Evict nothing; show what would go.")] = False,
    drop: Annotated[
        str | None, typer.Option("--drop", metavar="IDENTITY", help="Delete a leaf; the beginning will do.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which datasets are kept and why, and what the next eviction would take and cost to bring back."""
    amount = None if free is None else _bytes(free)
    with opened(ctx) as mill:
        shop = mill.workshop
        if drop is not None:
            gone = shop.drop(drop)
            show(as_json, {"dropped": gone.identity}, f"{gone.workflow}/{gone.name} is dropped")
            return
        evict = amount is not None and not dry_run
        found = shop.evictor().free(amount) if evict and amount is not None else shop.storage(amount)
        if amount is not None and found.problem is not None:
            raise CannotFree(found.problem)
    shown = [] if evict else [_standing(found), _kept(found, time.time())]
    show(as_json, documents.storage(found, evicted=evict), *shown, _going(found, evict), _told(found, evict))


def _bytes(said: str) -> int:
    try:
        return bytes_in(said)
    except ValueError as error:
        raise BadInput(str(error)) from error


def _standing(found: Storage) -> RenderableType:
    budget = found.budget
    limits = [None, None] if budget is None else [size(budget.bytes), size(budget.limit)]
    return fields([("held", size(found.held)), ("budget", limits[0]), ("evicts from", limits[1])])


def _kept(found: Storage, now: float) -> RenderableType:
    headings = ("identity", "dataset", ">size", ">took", "used", "state", "why it is there")
    return table("kept", headings, (_one_kept(k, now) for k in found.kept), empty="nothing")


def _one_kept(kept: Kept, now: float) -> list[object]:
    it = kept.dataset
    return [*_named(it), lasted(0.0, it.seconds), ago(it.used, now), it.state, kept.why]


def _named(dataset: StoredDataset) -> list[object]:
    return [dataset.identity[:12], f"{dataset.workflow}/{dataset.name}", size(dataset.bytes)]


def _going(found: Storage, evicted: bool) -> RenderableType:
    rows = ([*_named(g.dataset), lasted(0.0, g.seconds)] for g in found.going)
    empty = NONE if found.problem is None else found.problem
    title = "evicted" if evicted else "would go next"
    return table(title, ("identity", "dataset", ">size", ">to bring back"), rows, empty=empty)


def _told(found: Storage, evicted: bool) -> str:
    if not found.going and found.budget is None:
        return "no budget is set: nothing is evicted unless --free says so"
    verb = "were freed" if evicted else "would be freed"
    return f"{size(found.freed)} {verb}; to bring all of it back takes {lasted(0.0, found.seconds)}"
