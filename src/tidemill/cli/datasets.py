"""`storage`, `pin` and `unpin`: which datasets are kept and why, and what would go; and blocks that stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import RenderableType

from tidemill.app import serialization
from tidemill.cli.formatting import NONE, format_age, format_duration, format_plural, format_size
from tidemill.cli.options import AsJson, Limit, opened
from tidemill.cli.output import build_table, show_answer
from tidemill.errors import BadInput, CannotFree
from tidemill.model.block import Block
from tidemill.model.submission import StoredDataset
from tidemill.model.units import parse_size
from tidemill.runtime.maintenance import pins
from tidemill.runtime.oneshot.storage_report import RetainedDataset, StorageReport, StorageShare


def register_commands(app: typer.Typer) -> None:
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
    amount = None if free is None else _parse_bytes(free)
    with opened(ctx) as mill:
        shop = mill.workshop
        if drop is not None:
            gone = shop.drop_dataset(drop)
            show_answer(as_json, {"dropped": gone.identity}, f"{gone.workflow}/{gone.name} is dropped")
            return
        evict = amount is not None and not dry_run
        found = shop.build_evictor().free_bytes(amount) if evict and amount is not None else shop.report_storage(amount)
        if amount is not None and found.problems:
            raise CannotFree(found.problems[0])
        now = mill.catalog.read_time()
    shown = [] if evict else [_render_shares(found), *_render_retained(found, limit, now)]
    said = (_render_candidates(found, evict), *found.problems, _format_summary(found, evict))
    show_answer(as_json, serialization.serialize_storage(found, evicted=evict), *shown, *said)


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
    _check_one_given(dataset, block)
    if block is None:
        _pin_dataset(ctx, dataset or "", as_json, pinned=True)
        return
    with opened(ctx) as mill:
        held = pins.pin_block(mill.catalog, block)
        found = mill.catalog.read_block(block)
    said = f"{_format_block(found)} is pinned: it stays, with what it was made from ({len(held)} blocks in all)"
    show_answer(as_json, {"block": serialization.serialize_block(found), "held": sorted(held)}, said)


def unpin(ctx: typer.Context, dataset: Wanted = None, block: OfBlock = None, as_json: AsJson = False) -> None:
    """Let a dataset that was pinned be evicted when space is short, or a block be collected when nobody needs it."""
    _check_one_given(dataset, block)
    if block is None:
        _pin_dataset(ctx, dataset or "", as_json, pinned=False)
        return
    with opened(ctx) as mill:
        mill.catalog.unpin_block(block)
        found = mill.catalog.read_block(block)
    show_answer(
        as_json,
        {"block": serialization.serialize_block(found), "held": []},
        f"{_format_block(found)} is no longer pinned",
    )


def _check_one_given(dataset: str | None, block: int | None) -> None:
    if (dataset is None) == (block is None):
        raise BadInput("expected either a dataset or --block with a number; `tidemill storage` and `blocks` list them")


def _format_block(block: Block) -> str:
    return f"block {block.id} ({block.channel} at {block.seq})"


def _pin_dataset(ctx: typer.Context, dataset: str, as_json: bool, *, pinned: bool) -> None:
    with opened(ctx) as mill:
        found = mill.workshop.pin_dataset(dataset, pinned=pinned)
    said = "pinned: it is not evicted" if pinned else "no longer pinned"
    show_answer(as_json, serialization.serialize_dataset(found), f"{found.workflow}/{found.name} is {said}")


def _parse_bytes(said: str) -> int:
    try:
        return parse_size(said)
    except ValueError as error:
        raise BadInput(str(error)) from error


def _render_shares(found: StorageReport) -> RenderableType:
    headings = ("datasets of", ">held", ">budget", ">evicts from")
    return build_table("", headings, (_build_share_row(s) for s in (found.shares.store, *found.shares.workflows)))


def _build_share_row(share: StorageShare) -> list[object]:
    budget = share.budget
    limits = [None, None] if budget is None else [format_size(budget.bytes), format_size(budget.byte_limit)]
    return ["all" if share.workflow is None else share.workflow, format_size(share.held), *limits]


def _render_retained(found: StorageReport, limit: int, now: float) -> Iterator[RenderableType]:
    headings = ("identity", "dataset", ">size", ">took", "used", "state", "why it is there")
    largest = sorted(found.kept, key=lambda k: -k.dataset.bytes)
    yield build_table("kept", headings, (_build_retained_row(k, now) for k in largest[:limit]), empty="nothing")
    if rest := [k.dataset.bytes for k in largest[limit:]]:
        yield f"and {format_plural(len(rest), 'smaller one')} of {format_size(sum(rest))}; see them with --limit"


def _build_retained_row(kept: RetainedDataset, now: float) -> list[object]:
    it = kept.dataset
    return [*_build_name_cells(it), format_duration(0.0, it.seconds), format_age(it.used, now), it.state, kept.why]


def _build_name_cells(dataset: StoredDataset) -> list[object]:
    return [dataset.identity[:12], f"{dataset.workflow}/{dataset.name}", format_size(dataset.bytes)]


def _render_candidates(found: StorageReport, evicted: bool) -> RenderableType:
    rows = ([*_build_name_cells(g.dataset), format_duration(0.0, g.seconds)] for g in found.going)
    title = "evicted" if evicted else "would go next"
    return build_table(title, ("identity", "dataset", ">size", ">to bring back"), rows, empty=NONE)


def _format_summary(found: StorageReport, evicted: bool) -> str:
    if not found.going and found.shares.store.budget is None and not found.shares.workflows:
        return "no budget is set: nothing is evicted unless --free says so"
    verb = "were freed" if evicted else "would be freed"
    return (
        f"{format_size(found.freed_bytes)} {verb}; to bring all of it back takes {format_duration(0.0, found.seconds)}"
    )
