"""`/storage`: the stored datasets and why they are retained, the next evictions, and their recomputation cost."""

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
SHARE = ("datasets of", ">stored", ">budget", ">evicts from")
NAMED = ("identity", "dataset", ">size")


async def show_storage(desk: PageContext) -> None:
    with open_frame(desk, "/storage", "Storage"):
        view = _StoragePage(desk, pins=await run_off_loop(partial(desk.get_viewer().can_act, None)))
        await desk.keep_refreshing(view.refresh_page)


class _StoragePage:
    def __init__(self, desk: PageContext, *, pins: bool) -> None:
        """`pins`: whether the viewer may pin datasets, which needs a right on all workflows, because they belong to
        none.
        """
        self._desk = desk
        self._pins = pins
        self._evictor = desk.mill.workshop.build_evictor()  # caches the history, so that repeated reports are cheap
        HtmlText("Storage", "h1")
        with add_section("Budgets"):
            self._shares = LiveTable("Budgets", SHARE)
            self._problems = HtmlText("", "p", "banner")
        with add_section("Next evictions", "if space runs short"):
            self._going = LiveTable("Next evictions", (*NAMED, ">recompute time"), empty="nothing")
            self._told = HtmlText("", "p", "muted")
        with add_section("Stored"):
            self._kept = LiveTable("Stored", (*NAMED, ">took", "used", "state", "reason", ""), empty="nothing")
            self._more = HtmlText("", "p", "muted")

    async def refresh_page(self) -> None:
        report = await run_off_loop(self._evictor.report_storage)
        now = await run_off_loop(self._desk.mill.catalog.read_time)
        self._shares.show_rows([_build_share_row(s) for s in (report.shares.store, *report.shares.workflows)])
        self._problems.set_text(" ".join(report.problems))
        self._problems.set_visibility(bool(report.problems))
        self._going.show_rows([_build_candidate_row(g) for g in report.going[:SHOWN]])
        self._told.set_text(
            f"{format_size(report.freed_bytes)} would be freed; "
            f"recomputing all of it takes {format_span(report.seconds)}."
        )
        self._told.set_visibility(bool(report.going))
        self._kept.show_rows([self._build_retained_row(k, now) for k in report.kept[:SHOWN]])
        remaining = len(report.kept) - SHOWN
        self._more.set_text(f"And {format_plural(remaining, 'smaller one')}.")
        self._more.set_visibility(remaining > 0)

    def _build_retained_row(self, retained: RetainedDataset, now: float) -> Row:
        dataset = retained.dataset
        action = (
            TableCell("Unpin" if dataset.pinned else "Pin", act=self._build_pin_action(dataset))
            if self._pins
            else TableCell("")
        )
        return (
            *_build_name_cells(dataset),
            format_span(dataset.seconds),
            format_age(dataset.used, now),
            str(dataset.state),
            retained.why,
            action,
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


def _build_candidate_row(candidate: EvictionCandidate) -> Row:
    return (*_build_name_cells(candidate.dataset), format_span(candidate.seconds))


def _build_name_cells(dataset: StoredDataset) -> tuple[TableCell | str, ...]:
    name = f"{dataset.workflow}/{dataset.name}"
    cell = name if dataset.run is None else TableCell(name, format_run_url(dataset.run))
    return dataset.identity[:12], cell, format_size(dataset.bytes)
