"""`/storage`: which datasets are kept and why, what the next eviction would take, and what bringing it back costs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from tidemill.model.submission import StoredDataset
from tidemill.runtime.oneshot.storage_report import EvictionCandidate, RetainedDataset, StorageShare
from tidemill.ui.actions import PageActions
from tidemill.ui.context import PageContext
from tidemill.ui.elements import HtmlText, add_section, format_run_url, run_off_loop
from tidemill.ui.formatting import NONE, format_age, format_plural, format_size, format_span
from tidemill.ui.page_frame import open_frame
from tidemill.ui.table import LiveTable, Row, TableCell

SHOWN = 200
SHARE = ("datasets of", ">held", ">budget", ">evicts from")
NAMED = ("identity", "dataset", ">size")


async def show_storage(desk: PageContext) -> None:
    with open_frame(desk, "/storage", "Storage"):
        view = _StoragePage(desk, pins=await run_off_loop(partial(desk.get_viewer().can_act, None)))
        await desk.keep_refreshing(view.refresh_page)


class _StoragePage:
    def __init__(self, desk: PageContext, *, pins: bool) -> None:
        """`pins`: may whoever looks pin datasets? They are in no workflow, so that needs a right on all of them."""
        self._desk = desk
        self._pins = pins
        self._evictor = desk.mill.workshop.build_evictor()  # remembers the history, so that looking again is cheap
        HtmlText("Storage", "h1")
        with add_section("Budgets"):
            self._shares = LiveTable("Budgets", SHARE)
            self._problems = HtmlText("", "p", "banner")
        with add_section("Would go next", "if space gets short"):
            self._going = LiveTable("Would go next", (*NAMED, ">to bring back"), empty="nothing")
            self._told = HtmlText("", "p", "muted")
        with add_section("Kept"):
            self._kept = LiveTable("Kept", (*NAMED, ">took", "used", "state", "why it is there", ""), empty="nothing")
            self._more = HtmlText("", "p", "muted")

    async def refresh_page(self) -> None:
        found = await run_off_loop(self._evictor.report_storage)
        now = await run_off_loop(self._desk.mill.catalog.read_time)
        self._shares.show_rows([_build_share_row(s) for s in (found.shares.store, *found.shares.workflows)])
        self._problems.set_text(" ".join(found.problems))
        self._problems.set_visibility(bool(found.problems))
        self._going.show_rows([_build_candidate_row(g) for g in found.going[:SHOWN]])
        self._told.set_text(
            f"{format_size(found.freed_bytes)} would be freed; "
            f"to bring all of it back takes {format_span(found.seconds)}."
        )
        self._told.set_visibility(bool(found.going))
        self._kept.show_rows([self._build_retained_row(k, now) for k in found.kept[:SHOWN]])
        left = len(found.kept) - SHOWN
        self._more.set_text(f"And {format_plural(left, 'smaller one')}.")
        self._more.set_visibility(left > 0)

    def _build_retained_row(self, kept: RetainedDataset, now: float) -> Row:
        it = kept.dataset
        last = (
            TableCell("Unpin" if it.pinned else "Pin", act=self._build_pin_action(it)) if self._pins else TableCell("")
        )
        return (
            *_build_name_cells(it),
            format_span(it.seconds),
            format_age(it.used, now),
            str(it.state),
            kept.why,
            last,
        )

    def _build_pin_action(self, dataset: StoredDataset) -> Callable[[], Awaitable[None]]:
        return lambda: PageActions(self._desk).pin_dataset(dataset, pinned=not dataset.pinned)


def _build_share_row(share: StorageShare) -> Row:
    limits = (
        (NONE, NONE)
        if share.budget is None
        else (format_size(share.budget.bytes), format_size(share.budget.byte_limit))
    )
    return ("all" if share.workflow is None else share.workflow, format_size(share.held), *limits)


def _build_candidate_row(going: EvictionCandidate) -> Row:
    return (*_build_name_cells(going.dataset), format_span(going.seconds))


def _build_name_cells(dataset: StoredDataset) -> tuple[TableCell | str, ...]:
    name = f"{dataset.workflow}/{dataset.name}"
    made = name if dataset.run is None else TableCell(name, format_run_url(dataset.run))
    return dataset.identity[:12], made, format_size(dataset.bytes)
