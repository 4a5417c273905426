"""`/runs/…`: one run, the blocks that it read and wrote, and its log."""

from __future__ import annotations

from tidemill.app.inspection import read_run_details
from tidemill.display import columns
from tidemill.display.columns import format_subject_url
from tidemill.display.formatting import format_duration, format_utc
from tidemill.display.table import select_columns
from tidemill.model.run import ACTIVE_STATES, PENDING_STATES, Run
from tidemill.ui.actions import PageActions
from tidemill.ui.context import PageContext
from tidemill.ui.elements import (
    ActionButton,
    FactList,
    HtmlText,
    LogView,
    StateBadge,
    add_box,
    add_link,
    add_section,
    run_off_loop,
)
from tidemill.ui.page_frame import open_frame
from tidemill.ui.table import ValueTable

WRITTEN = select_columns(columns.BLOCK, "block", "channel", "seq", "kind", "state", "rows", "size")


async def show_run(context: PageContext, number: int) -> None:
    with open_frame(context, "", f"Run {number}"):
        run = await context.find_or_report(lambda: context.mill.catalog.runs.read(number), "")
        if run is not None:
            await context.keep_refreshing(_RunPage(context, run).refresh_page)


class _RunPage:
    def __init__(self, context: PageContext, run: Run) -> None:
        self._context = context
        self._number = run.id
        self._subject = run.subject
        with add_box("heading"):
            add_link(run.subject, format_subject_url(run), "eyebrow")
            with add_box("heading-line"):
                HtmlText(f"Run {run.id}", "h1")
                self._state = StateBadge("ready")
                with add_box("actions"):
                    self._kill = ActionButton("Kill", self._kill_run, "danger")
        self._error = HtmlText("", "pre", "log error")
        self._facts = FactList(("kind", "subject", "attempt", "owner", "requested", "started", "finished", "took"))
        with add_section("Tasks"):
            self._tasks = ValueTable("Tasks", columns.STATS, empty="nothing was measured")
        with add_section("Steps"):
            self._steps = ValueTable("Steps", columns.STEP, empty="no steps of declared tables")
        with add_box("columns"):
            with add_section("Read"):
                self._reads = ValueTable("Read", columns.READ, empty="nothing, or it did not finish")
            with add_section("Blocks written"):
                self._written = ValueTable("Blocks", WRITTEN)
        with add_section("Log"):
            self._log = LogView()

    async def _kill_run(self) -> None:
        await PageActions(self._context).kill_run(self._number, self._subject)

    async def refresh_page(self) -> None:
        catalog = self._context.mill.catalog
        run = await run_off_loop(catalog.runs.read, self._number)
        details = await run_off_loop(read_run_details, catalog, self._number)
        now = await run_off_loop(catalog.read_time)
        self._state.show_state(str(run.state))
        is_active = run.state in (*ACTIVE_STATES, *PENDING_STATES)
        self._kill.set_visibility(is_active and self._context.get_viewer().can_act_somewhere)
        self._error.set_text(run.error or "")
        self._error.set_visibility(bool(run.error))
        self._facts.show_values(
            kind=run.kind,
            subject=run.subject,
            attempt=run.attempt,
            owner=run.owner,
            requested=format_utc(run.created),
            started=format_utc(run.started),
            finished=format_utc(run.finished),
            took=format_duration(run.started, run.finished, now),
        )
        self._tasks.show_values(run.stats.get("tasks", {}).items())
        self._steps.show_values(step for steps in run.list_steps().values() for step in steps)
        self._reads.show_values(details.reads)
        self._written.show_values(details.blocks)
        self._log.show_text(details.log)
