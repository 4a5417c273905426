"""`/storage`: maintenance, quotas, the stored datasets and why they are retained, and the next evictions."""

from functools import partial

from tidemill.display import columns
from tidemill.display.formatting import format_plural
from tidemill.display.table import Column, TableCell
from tidemill.model.quota import QuotaUsage
from tidemill.model.units import format_size, format_span
from tidemill.runtime.maintenance.service import is_paused
from tidemill.runtime.oneshot.storage_report import RetainedDataset
from tidemill.runtime.runs.quotas import measure_usage
from tidemill.ui.actions import PageActions
from tidemill.ui.context import PageContext, open_frame
from tidemill.ui.elements import ActionButton, HtmlText, add_box, add_section, run_off_loop
from tidemill.ui.snapshot import ProjectSnapshot
from tidemill.ui.table import ValueTable

MAX_DATASETS = 200


async def show_storage(context: PageContext) -> None:
    with open_frame(context, "/storage", "Storage"):
        await context.keep_refreshing(_StoragePage(context).refresh_page)


class _StoragePage:
    def __init__(self, context: PageContext) -> None:
        self._context = context
        # It caches the history, so that repeated reports are cheap.
        self._evictor = context.mill.oneshot_service.build_evictor()
        HtmlText("Storage", "h1")
        with add_section("Maintenance", "compaction, garbage collection and expiry"):
            self._maintenance = HtmlText("", "p")
            self._add_buttons()
        with add_section("Budgets"):
            self._shares = ValueTable("Budgets", columns.SHARE)
            self._problems = HtmlText("", "p", "banner")
        with add_section("Quotas", "of workflows"):
            self._quotas = ValueTable("Quotas", columns.QUOTA, empty="no workflow has one")
        with add_section("Next evictions", "if space runs short"):
            self._candidates = ValueTable("Next evictions", columns.CANDIDATE, empty="nothing")
            self._summary = HtmlText("", "p", "muted")
        with add_section("Stored"):
            self._retained = ValueTable(
                "Stored", (*columns.RETAINED, Column("", self._build_pin_cell)), empty="nothing"
            )
            self._more = HtmlText("", "p", "muted")

    def _add_buttons(self) -> None:
        """Add the actions on maintenance, which affects every workflow, as pinning does."""
        with add_box("actions"):
            self._pause = ActionButton("Pause", partial(self._set_paused, paused=True))
            self._resume = ActionButton("Resume", partial(self._set_paused, paused=False))
            self._run = ActionButton("Run now", PageActions(self._context).run_maintenance)

    @property
    def _can_pin(self) -> bool:
        """Whether the viewer may act on all workflows, which pinning needs: datasets belong to none."""
        return self._context.get_viewer().can_act(None)

    async def _set_paused(self, *, paused: bool) -> None:
        await PageActions(self._context).pause_maintenance(paused=paused)
        await self._show_maintenance()

    async def _show_maintenance(self) -> None:
        paused = await run_off_loop(is_paused, self._context.mill.catalog.servers)
        automatic = self._context.mill.settings.maintenance.automatic
        state = "is paused" if paused else "is automatic"
        self._maintenance.set_text(f"Maintenance {state if automatic else 'is not automatic: the settings say so'}.")
        self._run.set_visibility(self._can_pin)
        self._pause.set_visibility(self._can_pin and not paused)
        self._resume.set_visibility(self._can_pin and paused)

    async def refresh_page(self, _snapshot: ProjectSnapshot, now: float) -> None:
        await self._show_maintenance()
        report = await run_off_loop(self._evictor.report_storage)
        self._shares.show_values(report.shares.listed_shares)
        self._problems.set_text(" ".join(report.problems))
        self._problems.set_visibility(bool(report.problems))
        self._quotas.show_values(await run_off_loop(self._measure_quotas))
        self._candidates.show_values(report.evictions[:MAX_DATASETS])
        self._summary.set_text(
            f"{format_size(report.freed_bytes)} would be freed; "
            f"recomputing all of it takes {format_span(report.seconds)}."
        )
        self._summary.set_visibility(bool(report.evictions))
        self._retained.show_values(report.retained[:MAX_DATASETS], now)
        remaining = len(report.retained) - MAX_DATASETS
        self._more.set_text(f"And {format_plural(remaining, 'smaller one')}.")
        self._more.set_visibility(remaining > 0)

    def _measure_quotas(self) -> tuple[QuotaUsage, ...]:
        return measure_usage(self._context.mill.quotas.quotas, self._context.mill.catalog.files)

    def _build_pin_cell(self, retained: RetainedDataset, _now: float) -> TableCell:
        if not self._can_pin:
            return TableCell("")
        pin = partial(PageActions(self._context).pin_dataset, retained.dataset)
        return TableCell("Unpin" if retained.dataset.pinned else "Pin", action=pin)
