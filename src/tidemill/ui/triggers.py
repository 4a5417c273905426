"""`/triggers` and `/servers`: the triggers of flows, their firings, and the servers that execute runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from tidemill.model.run import ACTIVE_STATES
from tidemill.ports.records import RegisteredWorkflow
from tidemill.ui import rows
from tidemill.ui.actions import PageActions
from tidemill.ui.context import PageContext
from tidemill.ui.elements import HtmlText, add_section, run_off_loop
from tidemill.ui.formatting import format_age
from tidemill.ui.page_frame import open_frame
from tidemill.ui.table import LiveTable, Row, TableCell

FIRINGS = 50


async def show_triggers(context: PageContext) -> None:
    with open_frame(context, "/triggers", "Triggers"):
        view = _TriggersPage(context)
        await context.keep_refreshing(view.refresh_page)


class _TriggersPage:
    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._can_act = context.get_viewer().can_act_somewhere
        HtmlText("Triggers", "h1")
        with add_section("Conditions"):
            self._conditions = LiveTable("Conditions", rows.TRIGGER, empty="no flow has a trigger")
        with add_section("Workflows"):
            self._workflows = LiveTable("Workflows", ("workflow", "state", ">priority", "changed", ""))
        with add_section("Firings", "newest first"):
            self._firings = LiveTable("Firings", rows.FIRING, empty="none yet")

    async def refresh_page(self) -> None:
        snapshot = await self._context.feed.read_snapshot()
        firings = await run_off_loop(self._context.mill.catalog.list_firings, None, FIRINGS)
        now = await run_off_loop(self._context.mill.catalog.read_time)
        self._conditions.show_rows([rows.build_trigger_row(t, now) for t in snapshot.triggers])
        self._workflows.show_rows([self._build_workflow_row(w, now) for w in snapshot.workflows])
        self._firings.show_rows([rows.build_firing_row(f, now) for f in firings])

    def _build_workflow_row(self, value: RegisteredWorkflow, now: float) -> Row:
        state = TableCell("paused", tone="paused") if value.paused else TableCell("active", tone="fresh")
        name = "Resume" if value.paused else "Pause"
        action = TableCell(name, action=self._build_action(value)) if self._can_act else TableCell("")
        return (value.name, state, str(value.priority), format_age(value.applied, now), action)

    def _build_action(self, value: RegisteredWorkflow) -> Callable[[], Awaitable[None]]:
        actions = PageActions(self._context)
        return (
            (lambda: actions.resume_workflow(value.name))
            if value.paused
            else (lambda: actions.pause_workflow(value.name))
        )


async def show_servers(context: PageContext) -> None:
    with open_frame(context, "/servers", "Servers"):
        HtmlText("Servers", "h1")
        with add_section("On this catalog"):
            table = LiveTable("Servers", rows.SERVER, empty="no server yet; start one with: tidemill up")

        async def refresh_table() -> None:
            snapshot = await context.feed.read_snapshot()
            servers = await run_off_loop(context.mill.catalog.list_servers)
            busy = Counter(r.owner for r in snapshot.status.active if r.state in ACTIVE_STATES and not r.backfill)
            now = await run_off_loop(context.mill.catalog.read_time)
            table.show_rows([rows.build_server_row(s, busy[s.name], now) for s in servers])

        await context.keep_refreshing(refresh_table)
