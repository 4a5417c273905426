"""`storage`, `pin` and `unpin`: the retained datasets, evictions, and pinned blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from tidemill.app import inspection, serialization
from tidemill.cli.options import Limit
from tidemill.cli.output import NONE, Answer, render_list
from tidemill.display import columns
from tidemill.display.formatting import format_plural, format_size, format_span
from tidemill.errors import BadInput, EvictionFailed
from tidemill.model.units import parse_size
from tidemill.runtime.oneshot.storage_report import StorageReport
from tidemill.wire.oneshot_schemas import DatasetDocument

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill


def storage(
    mill: Tidemill,
    free: Annotated[
        str | None,
        typer.Option("--free", metavar="BYTES", help="Evict this much now, e.g. '2 GB'.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Evict nothing; show the candidates.")] = False,
    drop: Annotated[
        str | None,
        typer.Option("--drop", metavar="DATASET", help="Delete a leaf.", show_default=False),
    ] = None,
    limit: Limit = 20,
) -> Answer:
    """Show which datasets are retained and why, and the next eviction with its cost of recomputation.

    The largest are shown first; with --json, all of them.
    """
    amount = None if free is None else _parse_bytes(free)
    service = mill.oneshot_service
    if drop is not None:
        dropped = service.drop_dataset(drop)
        return Answer({"dropped": dropped.identity}, f"{dropped.workflow}/{dropped.name} is dropped")
    must_evict = amount is not None and not dry_run
    report = (
        service.build_evictor().free_bytes(amount)
        if must_evict and amount is not None
        else service.report_storage(amount)
    )
    if amount is not None and report.problems:
        raise EvictionFailed(report.problems[0])
    now = mill.catalog.read_time()
    return Answer(
        serialization.serialize_storage(report, evicted=must_evict),
        *([] if must_evict else _render_retained(report, limit, now)),
        render_list("evicted" if must_evict else "next eviction", columns.CANDIDATE, report.evictions, empty=NONE),
        *report.problems,
        _format_summary(report, must_evict),
    )


Wanted = Annotated[
    str | None,
    typer.Argument(metavar="DATASET", help="The beginning of its identity, or workflow/name.", show_default=False),
]
OfBlock = Annotated[
    int | None,
    typer.Option("--block", help="A block instead, by its number; `tidemill blocks` lists them.", show_default=False),
]


def pin(mill: Tidemill, dataset: Wanted = None, block: OfBlock = None) -> Answer:
    """Pin a dataset against eviction, or a block and all its sources against garbage collection."""
    return _set_pinned(mill, dataset, block, pinned=True)


def unpin(mill: Tidemill, dataset: Wanted = None, block: OfBlock = None) -> Answer:
    """Allow a pinned dataset to be evicted, or a pinned block to be garbage-collected."""
    return _set_pinned(mill, dataset, block, pinned=False)


def _set_pinned(mill: Tidemill, dataset: str | None, block: int | None, *, pinned: bool) -> Answer:
    if (dataset is None) == (block is None):
        raise BadInput("expected either a dataset or --block with a number; `tidemill storage` and `blocks` list them")
    if block is not None:
        document = inspection.pin_block(mill.catalog, block, pinned=pinned)
        sources = f"pinned: it is kept with its sources ({len(document.retained_blocks)} blocks in all)"
        subject = f"block {block} ({document.block.channel} at {document.block.seq})"
        return Answer(document, f"{subject} is {sources if pinned else 'no longer pinned'}")
    record = mill.oneshot_service.pin_dataset(dataset or "", pinned=pinned)
    state = "pinned: it is not evicted" if pinned else "no longer pinned"
    return Answer(DatasetDocument.model_validate(record), f"{record.workflow}/{record.name} is {state}")


def _parse_bytes(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise BadInput(str(error)) from error


def _render_retained(report: StorageReport, limit: int, now: float) -> Iterator[RenderableType]:
    yield render_list("", columns.SHARE, (report.shares.store, *report.shares.workflows))
    largest = sorted(report.retained, key=lambda k: -k.dataset.bytes)
    yield render_list("retained", columns.RETAINED, largest[:limit], now, empty="nothing")
    if rest := [k.dataset.bytes for k in largest[limit:]]:
        yield f"and {format_plural(len(rest), 'smaller one')} of {format_size(sum(rest))}; see them with --limit"


def _format_summary(report: StorageReport, evicted: bool) -> str:
    if not report.evictions and report.shares.store.budget is None and not report.shares.workflows:
        return "no budget is set: nothing is evicted without --free"
    verb = "were freed" if evicted else "would be freed"
    return f"{format_size(report.freed_bytes)} {verb}; recomputing all of it takes {format_span(report.seconds)}"
