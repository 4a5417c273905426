"""`/runs`: runs over time, and the newest runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from nicegui import ui

from tidemill.model.run import ACTIVE_STATES, PENDING_STATES, Run, RunState
from tidemill.ui import rows
from tidemill.ui.actions import PageActions
from tidemill.ui.context import PageContext
from tidemill.ui.elements import HtmlText, add_box, add_link, add_section, format_run_url, run_off_loop
from tidemill.ui.formatting import format_duration
from tidemill.ui.page_frame import open_frame
from tidemill.ui.run_lanes import WINDOWS, RunLane, RunLaneBar, build_lanes, choose_window, format_marks
from tidemill.ui.snapshot import RUNS
from tidemill.ui.table import LiveTable, Row, TableCell

MAX_RUNS = 100


async def show_runs(context: PageContext, state: RunState | None) -> None:
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
            _add_choices(state)
            self._table = LiveTable("Runs", (*rows.RUN, ""), empty="no runs")

    async def refresh_page(self) -> None:
        snapshot = await self._context.feed.read_snapshot()
        now = await run_off_loop(self._context.mill.catalog.read_time)
        self._strip.show_lanes(snapshot.runs, now)
        runs = list(snapshot.runs)
        if self._state is not None:
            runs = await run_off_loop(self._context.mill.catalog.list_runs, state=self._state, limit=RUNS)
        self._table.show_rows([self._build_row(r, now) for r in runs[:MAX_RUNS]])

    def _build_row(self, run: Run, now: float) -> Row:
        is_active = run.state in (*ACTIVE_STATES, *PENDING_STATES)
        action = (
            TableCell("Kill", action=self._build_kill_action(run)) if is_active and self._can_act else TableCell("")
        )
        return (*rows.build_run_row(run, now), action)

    def _build_kill_action(self, run: Run) -> Callable[[], Awaitable[None]]:
        return lambda: PageActions(self._context).kill_run(run.id, run.subject)


def _add_choices(current: RunState | None) -> None:
    with add_box("choices", "nav") as nav:
        nav.props["aria-label"] = "States"
        for name in (None, *RunState):
            link = add_link("all" if name is None else str(name), "/runs" if name is None else f"/runs?state={name}")
            if name == current:
                link.props["aria-current"] = "true"


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
