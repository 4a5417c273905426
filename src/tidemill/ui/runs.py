"""`/runs` and `/runs/…`: runs over time, the newest runs, and one run with its blocks and its log."""

from collections.abc import Sequence

from nicegui import ui

from tidemill.app.inspection import read_run_details
from tidemill.display import columns
from tidemill.display.columns import format_subject_url
from tidemill.display.formatting import format_duration, format_utc
from tidemill.display.table import Column, TableCell, format_run_url, select_columns
from tidemill.model.run import ACTIVE_STATES, PENDING_STATES, Run, RunState
from tidemill.runtime.runs.requests import find_run_workflow
from tidemill.ui import elements
from tidemill.ui.actions import PageActions
from tidemill.ui.context import PageContext, open_frame
from tidemill.ui.elements import run_off_loop
from tidemill.ui.run_lanes import WINDOWS, RunLane, RunLaneBar, build_lanes, choose_window, format_marks
from tidemill.ui.snapshot import RUNS, ProjectSnapshot
from tidemill.ui.table import ValueTable

MAX_RUNS = 100


async def show_runs(context: PageContext, state: RunState | None = None) -> None:
    with open_frame(context, "/runs", "Runs"):
        await context.keep_refreshing(_RunsPage(context, state).refresh_page)


class _RunsPage:
    def __init__(self, context: PageContext, state: RunState | None) -> None:
        self._context = context
        self._state = state
        elements.HtmlText("Runs", "h1")
        with elements.add_section("Recent", "by owner and track"):
            self._strip = _RunStrip()
        with elements.add_section("Newest first"):
            states = ((str(s), f"/runs?state={s}", s == state) for s in RunState)
            elements.add_choices("States", (("all", "/runs", state is None), *states))
            self._table = ValueTable("Runs", (*columns.RUN, Column("", self._build_kill_cell)), empty="no runs")

    async def refresh_page(self, snapshot: ProjectSnapshot, now: float) -> None:
        self._strip.show_lanes(snapshot.runs, now)
        runs = list(snapshot.runs)
        if self._state is not None:
            runs = await run_off_loop(self._context.mill.catalog.runs.list, state=self._state, limit=RUNS)
        self._table.show_values(runs[:MAX_RUNS], now)

    def _build_kill_cell(self, run: Run, _now: float) -> TableCell:
        can_act = self._context.get_viewer().can_act_somewhere
        if not can_act or run.state not in (*ACTIVE_STATES, *PENDING_STATES):
            return TableCell("")
        return TableCell("Kill", action=lambda: PageActions(self._context).kill_run(run.id, run.subject))


class _RunStrip:
    """Bars on lanes; each is a link to its run."""

    def __init__(self) -> None:
        self._container = elements.add_box("strip")
        with elements.add_box("strip-scale"):
            self._marks = [elements.HtmlText(text) for text in format_marks(WINDOWS[-1])]

    def show_lanes(self, runs: Sequence[Run], now: float) -> None:
        length = choose_window(min((r.started for r in runs if r.started is not None), default=None), now)
        for text, mark in zip(self._marks, format_marks(length), strict=True):
            text.set_text(mark)
        lanes = build_lanes(runs, now - length, now)
        self._container.clear()
        with self._container:
            for lane in lanes:
                _add_lane(lane, now)
            if not lanes:
                elements.HtmlText("Nothing ran.", "p", "muted empty")


def _add_lane(lane: RunLane, now: float) -> None:
    with elements.add_box("lane"):
        elements.HtmlText(lane.name, classes="lane-name")
        with elements.add_box("lane-bars"):
            for bar in lane.bars:
                _add_bar(bar, now)


def _add_bar(bar: RunLaneBar, now: float) -> ui.link:
    run = bar.run
    kind = "backfill" if run.backfill else "run"
    label = f"{kind} {run.id} of {run.subject}: {run.state}, {format_duration(run.started, run.finished, now)}"
    link = elements.add_link("", format_run_url(run.id), f"lane-bar tone-{run.state}")
    link.style(f"left: {bar.left * 100:.3f}%; width: {bar.width * 100:.3f}%")
    link.props["aria-label"] = link.props["title"] = label
    return link


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
        with elements.add_box("heading"):
            elements.add_link(run.subject, format_subject_url(run), "eyebrow")
            with elements.add_box("heading-line"):
                elements.HtmlText(f"Run {run.id}", "h1")
                self._state = elements.StateBadge("ready")
                with elements.add_box("actions"):
                    self._kill = elements.ActionButton("Kill", self._kill_run, "danger")
        self._error = elements.HtmlText("", "pre", "log error")
        self._facts = elements.FactList()
        with elements.add_section("Tasks"):
            self._tasks = ValueTable("Tasks", columns.STATS, empty="nothing was measured")
        with elements.add_section("Steps"):
            self._steps = ValueTable("Steps", columns.STEP, empty="no steps of declared tables")
        with elements.add_box("columns"):
            with elements.add_section("Read"):
                self._reads = ValueTable("Read", columns.READ, empty="nothing, or it did not finish")
            with elements.add_section("Blocks written"):
                self._written = ValueTable("Blocks", WRITTEN)
        with elements.add_section("Log") as self._log_section:
            self._log = elements.LogView()

    async def _kill_run(self) -> None:
        await PageActions(self._context).kill_run(self._number, self._subject)

    async def refresh_page(self, _snapshot: ProjectSnapshot, now: float) -> None:
        catalog = self._context.mill.catalog
        run = await run_off_loop(catalog.runs.read, self._number)
        details = await run_off_loop(read_run_details, catalog, self._number)
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
        await self._show_log(details.log or "")

    async def _show_log(self, log: str) -> None:
        """Show the log to viewers who may act on the run: it has the full text of errors."""
        viewer, catalog = self._context.get_viewer(), self._context.mill.catalog
        is_visible = await run_off_loop(lambda: viewer.can_act(find_run_workflow(catalog, self._number)))
        self._log_section.set_visibility(is_visible)
        self._log.show_text(log if is_visible else "")
