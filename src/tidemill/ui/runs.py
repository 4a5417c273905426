"""`/runs`: runs over time, and the newest runs."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from tidemill.display import columns
from tidemill.display.formatting import format_duration
from tidemill.display.table import Column, TableCell, format_run_url
from tidemill.model.run import ACTIVE_STATES, PENDING_STATES, Run, RunState
from tidemill.ui.actions import PageActions
from tidemill.ui.context import PageContext
from tidemill.ui.elements import HtmlText, add_box, add_choices, add_link, add_section, run_off_loop
from tidemill.ui.page_frame import open_frame
from tidemill.ui.run_lanes import WINDOWS, RunLane, RunLaneBar, build_lanes, choose_window, format_marks
from tidemill.ui.snapshot import RUNS
from tidemill.ui.table import ValueTable

MAX_RUNS = 100


async def show_runs(context: PageContext, state: RunState | None = None) -> None:
    with open_frame(context, "/runs", "Runs"):
        view = _RunsPage(context, state)
        await context.keep_refreshing(view.refresh_page)


class _RunsPage:
    def __init__(self, context: PageContext, state: RunState | None) -> None:
        self._context = context
        self._state = state
        self._can_act = context.get_viewer().can_act_somewhere
        HtmlText("Runs", "h1")
        with add_section("Recent", "by owner and track"):
            self._strip = _RunStrip()
        with add_section("Newest first"):
            choices = (("all" if s is None else str(s), _format_runs_url(s), s == state) for s in (None, *RunState))
            add_choices("States", choices)
            self._table = ValueTable("Runs", (*columns.RUN, Column("", self._build_kill_cell)), empty="no runs")

    async def refresh_page(self) -> None:
        snapshot = await self._context.feed.read_snapshot()
        now = await run_off_loop(self._context.mill.catalog.read_time)
        self._strip.show_lanes(snapshot.runs, now)
        runs = list(snapshot.runs)
        if self._state is not None:
            runs = await run_off_loop(self._context.mill.catalog.runs.list, state=self._state, limit=RUNS)
        self._table.show_values(runs[:MAX_RUNS], now)

    def _build_kill_cell(self, run: Run, _now: float) -> TableCell:
        if not self._can_act or run.state not in (*ACTIVE_STATES, *PENDING_STATES):
            return TableCell("")
        return TableCell("Kill", action=lambda: PageActions(self._context).kill_run(run.id, run.subject))


def _format_runs_url(state: RunState | None) -> str:
    return "/runs" if state is None else f"/runs?state={state}"


class _RunStrip:
    """Bars on lanes; each is a link to its run."""

    def __init__(self) -> None:
        self._container = add_box("strip")
        with add_box("strip-scale"):
            self._marks = [HtmlText(text) for text in format_marks(WINDOWS[-1])]

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
                HtmlText("Nothing ran.", "p", "muted empty")


def _add_lane(lane: RunLane, now: float) -> None:
    with add_box("lane"):
        HtmlText(lane.name, classes="lane-name")
        with add_box("lane-bars"):
            for bar in lane.bars:
                _add_bar(bar, now)


def _add_bar(bar: RunLaneBar, now: float) -> ui.link:
    run = bar.run
    kind = "backfill" if run.backfill else "run"
    label = f"{kind} {run.id} of {run.subject}: {run.state}, {format_duration(run.started, run.finished, now)}"
    link = add_link("", format_run_url(run.id), f"lane-bar tone-{run.state}")
    link.style(f"left: {bar.left * 100:.3f}%; width: {bar.width * 100:.3f}%")
    link.props["aria-label"] = link.props["title"] = label
    return link
