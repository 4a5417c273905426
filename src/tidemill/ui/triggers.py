"""`/triggers` and `/servers`: what makes flows run, what fired, and who executes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from tidemill.model.run import UNDER_WAY
from tidemill.ports.records import RegisteredWorkflow
from tidemill.ui import rows
from tidemill.ui.actions import Actions
from tidemill.ui.context import Desk, off_loop
from tidemill.ui.elements import Text, section
from tidemill.ui.formatting import ago
from tidemill.ui.page_frame import frame
from tidemill.ui.table import Cell, Row, Table

FIRINGS = 50


async def triggers(desk: Desk) -> None:
    with frame(desk, "/triggers", "Triggers"):
        view = _Triggers(desk)
        await desk.keep(view.show)


class _Triggers:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._acts = desk.viewer().acts
        Text("Triggers", "h1")
        with section("Conditions"):
            self._conditions = Table("Conditions", rows.TRIGGER, empty="no flow has a trigger")
        with section("Workflows"):
            self._workflows = Table("Workflows", ("workflow", "state", ">priority", "changed", ""))
        with section("Firings", "newest first"):
            self._firings = Table("Firings", rows.FIRING, empty="none yet")

    async def show(self) -> None:
        snapshot = await self._desk.feed.snapshot()
        fired = await off_loop(self._desk.mill.catalog.firings, None, FIRINGS)
        now = await off_loop(self._desk.mill.catalog.now)
        self._conditions.show([rows.of_trigger(t, now) for t in snapshot.triggers])
        self._workflows.show([self._workflow(w, now) for w in snapshot.workflows])
        self._firings.show([rows.of_firing(f, now) for f in fired])

    def _workflow(self, value: RegisteredWorkflow, now: float) -> Row:
        state = Cell("paused", tone="paused") if value.paused else Cell("goes on", tone="fresh")
        name = "Resume" if value.paused else "Pause"
        act = Cell(name, act=self._act(value)) if self._acts else Cell("")
        return (value.name, state, str(value.priority), ago(value.applied, now), act)

    def _act(self, value: RegisteredWorkflow) -> Callable[[], Awaitable[None]]:
        actions = Actions(self._desk)
        return (lambda: actions.resume(value.name)) if value.paused else (lambda: actions.pause(value.name))


async def servers(desk: Desk) -> None:
    with frame(desk, "/servers", "Servers"):
        Text("Servers", "h1")
        with section("On this catalog"):
            table = Table("Servers", rows.SERVER, empty="no server yet; start one with: tidemill up")

        async def show() -> None:
            snapshot = await desk.feed.snapshot()
            found = await off_loop(desk.mill.catalog.servers)
            busy = Counter(r.owner for r in snapshot.status.active if r.state in UNDER_WAY and not r.backfill)
            now = await off_loop(desk.mill.catalog.now)
            table.show([rows.of_server(s, busy[s.name], now) for s in found])

        await desk.keep(show)
