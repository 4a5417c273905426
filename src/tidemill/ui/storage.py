"""`/storage`: the stored datasets and why they are retained, the next evictions, and their recomputation cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from tidemill.model.submission import StoredDataset
from tidemill.runtime.oneshot.storage_report import EvictionCandidate, RetainedDataset, StorageShare
from tidemill.ui.actions import PageActions
from tidemill.ui.context import PageContext
from tidemill.ui.elements import HtmlText, add_section, format_run_url, run_off_loop
from tidemill.ui.formatting import MISSING, format_age, format_plural, format_size, format_span
from tidemill.ui.page_frame import open_frame
from tidemill.ui.table import LiveTable, Row, TableCell

MAX_DATASETS = 200
SHARE = ("datasets of", ">stored", ">budget", ">evicts from")
NAMED = ("identity", "dataset", ">size")


async def show_storage(context: PageContext) -> None:
    with open_frame(context, "/storage", "Storage"):
        view = _StoragePage(context, can_pin=await run_off_loop(partial(context.get_viewer().can_act, None)))
        await context.keep_refreshing(view.refresh_page)


class _StoragePage:
    def __init__(self, context: PageContext, *, can_pin: bool) -> None:
        """`can_pin`: whether the viewer may pin datasets, which needs a right on all workflows, because they belong to
        none.
        """
        self._context = context
        self._can_pin = can_pin
        self._evictor = (
            context.mill.oneshot_service.build_evictor()
        )  # caches the history, so that repeated reports are cheap
        HtmlText("Storage", "h1")
        with add_section("Budgets"):
            self._shares = LiveTable("Budgets", SHARE)
            self._problems = HtmlText("", "p", "banner")
        with add_section("Next evictions", "if space runs short"):
            self._candidates = LiveTable("Next evictions", (*NAMED, ">recompute time"), empty="nothing")
            self._summary = HtmlText("", "p", "muted")
        with add_section("Stored"):
            self._retained = LiveTable("Stored", (*NAMED, ">took", "used", "state", "reason", ""), empty="nothing")
            self._more = HtmlText("", "p", "muted")

    async def refresh_page(self) -> None:
        report = await run_off_loop(self._evictor.report_storage)
        now = await run_off_loop(self._context.mill.catalog.read_time)
        self._shares.show_rows([_build_share_row(s) for s in (report.shares.store, *report.shares.workflows)])
        self._problems.set_text(" ".join(report.problems))
        self._problems.set_visibility(bool(report.problems))
        self._candidates.show_rows([_build_candidate_row(g) for g in report.evictions[:MAX_DATASETS]])
        self._summary.set_text(
            f"{format_size(report.freed_bytes)} would be freed; "
            f"recomputing all of it takes {format_span(report.seconds)}."
        )
        self._summary.set_visibility(bool(report.evictions))
        self._retained.show_rows([self._build_retained_row(k, now) for k in report.retained[:MAX_DATASETS]])
        remaining = len(report.retained) - MAX_DATASETS
        self._more.set_text(f"And {format_plural(remaining, 'smaller one')}.")
        self._more.set_visibility(remaining > 0)

    def _build_retained_row(self, retained: RetainedDataset, now: float) -> Row:
        dataset = retained.dataset
        action = (
            TableCell("Unpin" if dataset.pinned else "Pin", action=self._build_pin_action(dataset))
            if self._can_pin
            else TableCell("")
        )
        return (
            *_build_name_cells(dataset),
            format_span(dataset.seconds),
            format_age(dataset.used_at, now),
            str(dataset.state),
            retained.why,
            action,
        )

    def _build_pin_action(self, dataset: StoredDataset) -> Callable[[], Awaitable[None]]:
        return lambda: PageActions(self._context).pin_dataset(dataset, pinned=not dataset.pinned)


def _build_share_row(share: StorageShare) -> Row:
    limits = (
        (MISSING, MISSING)
        if share.budget is None
        else (format_size(share.budget.byte_budget), format_size(share.budget.byte_limit))
    )
    return ("all" if share.workflow is None else share.workflow, format_size(share.used_bytes), *limits)


def _build_candidate_row(candidate: EvictionCandidate) -> Row:
    return (*_build_name_cells(candidate.dataset), format_span(candidate.seconds))


def _build_name_cells(dataset: StoredDataset) -> tuple[TableCell | str, ...]:
    name = f"{dataset.workflow}/{dataset.name}"
    cell = name if dataset.run is None else TableCell(name, format_run_url(dataset.run))
    return dataset.identity[:12], cell, format_size(dataset.bytes)
