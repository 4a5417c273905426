"""`/runs`: what was executed, and when, and where."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from nicegui import ui

from tidemill.model.run import TO_COME, UNDER_WAY, Run, RunState
from tidemill.ui import rows
from tidemill.ui.actions import Actions
from tidemill.ui.context import Desk, off_loop
from tidemill.ui.elements import Text, box, link, run_url, section
from tidemill.ui.formatting import took
from tidemill.ui.page_frame import frame
from tidemill.ui.run_lanes import WINDOWS, Bar, Lane, marks, strip, window
from tidemill.ui.snapshot import RUNS
from tidemill.ui.table import Cell, Row, Table

SHOWN = 100


async def runs(desk: Desk, state: RunState | None) -> None:
    with frame(desk, "/runs", "Runs"):
        view = _Runs(desk, state)
        await desk.keep(view.show)


class _Runs:
    def __init__(self, desk: Desk, state: RunState | None) -> None:
        self._desk = desk
        self._state = state
        self._acts = desk.viewer().acts
        Text("Runs", "h1")
        with section("Lately", "by owner and track"):
            self._strip = _Strip()
        with section("Newest first"):
            _choices(state)
            self._table = Table("Runs", (*rows.RUN, ""), empty="no runs")

    async def show(self) -> None:
        snapshot = await self._desk.feed.snapshot()
        now = await off_loop(self._desk.mill.catalog.now)
        self._strip.show(snapshot.runs, now)
        found = list(snapshot.runs)
        if self._state is not None:
            found = await off_loop(self._desk.mill.catalog.runs, state=self._state, limit=RUNS)
        self._table.show([self._row(r, now) for r in found[:SHOWN]])

    def _row(self, run: Run, now: float) -> Row:
        alive = run.state in (*UNDER_WAY, *TO_COME)
        last = Cell("Kill", act=self._kill(run)) if alive and self._acts else Cell("")
        return (*rows.of_run(run, now), last)

    def _kill(self, run: Run) -> Callable[[], Awaitable[None]]:
        return lambda: Actions(self._desk).kill(run.id, run.subject)


def _choices(chosen: RunState | None) -> None:
    with box("choices", "nav") as nav:
        nav.props["aria-label"] = "States"
        for name in (None, *RunState):
            made = link("all" if name is None else str(name), "/runs" if name is None else f"/runs?state={name}")
            if name == chosen:
                made.props["aria-current"] = "true"


class _Strip:
    """Bars on lanes; each is a link to its run."""

    def __init__(self) -> None:
        self._place = box("strip")
        with box("strip-scale"):
            self._marks = [Text(text) for text in marks(WINDOWS[-1])]

    def show(self, known: Sequence[Run], now: float) -> None:
        length = window(min((r.started for r in known if r.started is not None), default=None), now)
        for text, mark in zip(self._marks, marks(length), strict=True):
            text.set_text(mark)
        lanes = strip(known, now - length, now)
        self._place.clear()
        with self._place:
            for lane in lanes:
                _lane(lane, now)
            if not lanes:
                Text("Nothing ran.", "p", "muted empty")


def _lane(lane: Lane, now: float) -> None:
    with box("lane"):
        Text(lane.name, classes="lane-name")
        with box("lane-bars"):
            for bar in lane.bars:
                _bar(bar, now)


def _bar(bar: Bar, now: float) -> ui.link:
    run = bar.run
    what = "backfill" if run.backfill else "run"
    said = f"{what} {run.id} of {run.subject}: {run.state}, {took(run.started, run.finished, now)}"
    made = link("", run_url(run.id), f"lane-bar tone-{run.state}")
    made.style(f"left: {bar.left * 100:.3f}%; width: {bar.width * 100:.3f}%")
    made.props["aria-label"] = made.props["title"] = said
    return made
