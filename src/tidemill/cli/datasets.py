"""`storage`, `pin` and `unpin`: which datasets are kept and why, and what would go; and blocks that stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import RenderableType

from tidemill.app import serialization
from tidemill.cli.formatting import NONE, ago, lasted, plural, size
from tidemill.cli.options import AsJson, Limit, opened
from tidemill.cli.output import show, table
from tidemill.errors import BadInput, CannotFree
from tidemill.model.block import Block
from tidemill.model.submission import StoredDataset
from tidemill.model.units import bytes_in
from tidemill.runtime.maintenance import pins
from tidemill.runtime.oneshot.storage_report import Kept, Share, Storage


def register(app: typer.Typer) -> None:
    for command in (storage, pin, unpin):
        app.command()(command)


def storage(
    ctx: typer.Context,
    free: Annotated[
        str | None, typer.Option("--free", metavar="BYTES", help="Evict so much now, e.g. '2 GB'.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Evict nothing; show what would go.")] = False,
    drop: Annotated[
        str | None,
        typer.Option("--drop", metavar="DATASET", help="Delete a leaf.", show_default=False),
    ] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """Show which datasets are kept and why, and what the next eviction would take and cost to bring back.

    The largest are shown first; with --json, all of them.
    """
    amount = None if free is None else _bytes(free)
    with opened(ctx) as mill:
        shop = mill.workshop
        if drop is not None:
            gone = shop.drop(drop)
            show(as_json, {"dropped": gone.identity}, f"{gone.workflow}/{gone.name} is dropped")
            return
        evict = amount is not None and not dry_run
        found = shop.evictor().free(amount) if evict and amount is not None else shop.storage(amount)
        if amount is not None and found.problems:
            raise CannotFree(found.problems[0])
        now = mill.catalog.now()
    shown = [] if evict else [_standing(found), *_kept(found, limit, now)]
    said = (_going(found, evict), *found.problems, _told(found, evict))
    show(as_json, serialization.storage(found, evicted=evict), *shown, *said)


Wanted = Annotated[
    str | None,
    typer.Argument(metavar="DATASET", help="The beginning of its identity, or workflow/name.", show_default=False),
]
OfBlock = Annotated[
    int | None,
    typer.Option("--block", help="A block instead, by its number; `tidemill blocks` lists them.", show_default=False),
]


def pin(ctx: typer.Context, dataset: Wanted = None, block: OfBlock = None, as_json: AsJson = False) -> None:
    """Keep a dataset from being evicted, or a block and all that it was made from from being collected."""
    _one_of(dataset, block)
    if block is None:
        _pin(ctx, dataset or "", as_json, pinned=True)
        return
    with opened(ctx) as mill:
        held = pins.pin(mill.catalog, block)
        found = mill.catalog.block(block)
    said = f"{_placed(found)} is pinned: it stays, with what it was made from ({len(held)} blocks in all)"
    show(as_json, {"block": serialization.block(found), "held": sorted(held)}, said)


def unpin(ctx: typer.Context, dataset: Wanted = None, block: OfBlock = None, as_json: AsJson = False) -> None:
    """Let a dataset that was pinned be evicted when space is short, or a block be collected when nobody needs it."""
    _one_of(dataset, block)
    if block is None:
        _pin(ctx, dataset or "", as_json, pinned=False)
        return
    with opened(ctx) as mill:
        mill.catalog.unpin(block)
        found = mill.catalog.block(block)
    show(as_json, {"block": serialization.block(found), "held": []}, f"{_placed(found)} is no longer pinned")


def _one_of(dataset: str | None, block: int | None) -> None:
    if (dataset is None) == (block is None):
        raise BadInput("expected either a dataset or --block with a number; `tidemill storage` and `blocks` list them")


def _placed(block: Block) -> str:
    return f"block {block.id} ({block.channel} at {block.seq})"


def _pin(ctx: typer.Context, dataset: str, as_json: bool, *, pinned: bool) -> None:
    with opened(ctx) as mill:
        found = mill.workshop.pin(dataset, pinned=pinned)
    said = "pinned: it is not evicted" if pinned else "no longer pinned"
    show(as_json, serialization.dataset(found), f"{found.workflow}/{found.name} is {said}")


def _bytes(said: str) -> int:
    try:
        return bytes_in(said)
    except ValueError as error:
        raise BadInput(str(error)) from error


def _standing(found: Storage) -> RenderableType:
    headings = ("datasets of", ">held", ">budget", ">evicts from")
    return table("", headings, (_share(s) for s in (found.shares.store, *found.shares.workflows)))


def _share(share: Share) -> list[object]:
    budget = share.budget
    limits = [None, None] if budget is None else [size(budget.bytes), size(budget.limit)]
    return ["all" if share.workflow is None else share.workflow, size(share.held), *limits]


def _kept(found: Storage, limit: int, now: float) -> Iterator[RenderableType]:
    headings = ("identity", "dataset", ">size", ">took", "used", "state", "why it is there")
    largest = sorted(found.kept, key=lambda k: -k.dataset.bytes)
    yield table("kept", headings, (_one_kept(k, now) for k in largest[:limit]), empty="nothing")
    if rest := [k.dataset.bytes for k in largest[limit:]]:
        yield f"and {plural(len(rest), 'smaller one')} of {size(sum(rest))}; see them with --limit"


def _one_kept(kept: Kept, now: float) -> list[object]:
    it = kept.dataset
    return [*_named(it), lasted(0.0, it.seconds), ago(it.used, now), it.state, kept.why]


def _named(dataset: StoredDataset) -> list[object]:
    return [dataset.identity[:12], f"{dataset.workflow}/{dataset.name}", size(dataset.bytes)]


def _going(found: Storage, evicted: bool) -> RenderableType:
    rows = ([*_named(g.dataset), lasted(0.0, g.seconds)] for g in found.going)
    title = "evicted" if evicted else "would go next"
    return table(title, ("identity", "dataset", ">size", ">to bring back"), rows, empty=NONE)


def _told(found: Storage, evicted: bool) -> str:
    if not found.going and found.shares.store.budget is None and not found.shares.workflows:
        return "no budget is set: nothing is evicted unless --free says so"
    verb = "were freed" if evicted else "would be freed"
    return f"{size(found.freed)} {verb}; to bring all of it back takes {lasted(0.0, found.seconds)}"
