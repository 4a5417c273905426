"""`/triggers` and `/servers`: the triggers of flows, their firings, and the servers that execute runs."""

from collections import Counter
from functools import partial

from tidemill.display import columns
from tidemill.display.table import Column, TableCell
from tidemill.model.run import ACTIVE_STATES
from tidemill.ports.records import RegisteredWorkflow, Server
from tidemill.ui.actions import PageActions
from tidemill.ui.context import PageContext, open_frame
from tidemill.ui.elements import HtmlText, add_section, run_off_loop
from tidemill.ui.snapshot import ProjectSnapshot
from tidemill.ui.table import ValueTable

FIRINGS = 50


async def show_triggers(context: PageContext) -> None:
    with open_frame(context, "/triggers", "Triggers"):
        await context.keep_refreshing(_TriggersPage(context).refresh_page)


class _TriggersPage:
    def __init__(self, context: PageContext) -> None:
        self._context = context
        HtmlText("Triggers", "h1")
        with add_section("Conditions"):
            self._conditions = ValueTable("Conditions", columns.TRIGGER, empty="no flow has a trigger")
        with add_section("Workflows"):
            self._workflows = ValueTable("Workflows", (*columns.WORKFLOW, Column("", self._build_pause_cell)))
        with add_section("Firings", "newest first"):
            self._firings = ValueTable("Firings", columns.FIRING, empty="none yet")

    async def refresh_page(self, snapshot: ProjectSnapshot, now: float) -> None:
        firings = await run_off_loop(self._context.mill.catalog.triggers.list_firings, None, FIRINGS)
        self._conditions.show_values(snapshot.triggers, now)
        self._workflows.show_values(snapshot.workflows, now)
        self._firings.show_values(firings, now)

    def _build_pause_cell(self, workflow: RegisteredWorkflow, _now: float) -> TableCell:
        if not self._context.get_viewer().can_act_somewhere:
            return TableCell("")
        pause = partial(PageActions(self._context).pause_workflow, workflow.name, paused=not workflow.paused)
        return TableCell("Resume" if workflow.paused else "Pause", action=pause)


async def show_servers(context: PageContext) -> None:
    with open_frame(context, "/servers", "Servers"):
        HtmlText("Servers", "h1")
        with add_section("On this catalog"):
            busy: Counter[str | None] = Counter()
            tracks = Column[Server](">tracks busy", lambda s, _: f"{busy[s.name]} of {s.tracks}")
            shown = (*columns.SERVER[:4], tracks, *columns.SERVER[5:])
            table = ValueTable("Servers", shown, empty="no server yet; start one with: tidemill up")

        async def refresh_table(snapshot: ProjectSnapshot, now: float) -> None:
            servers = await run_off_loop(context.mill.catalog.servers.list)
            busy.clear()
            busy.update(r.server for r in snapshot.status.active if r.state in ACTIVE_STATES and not r.backfill)
            table.show_values(servers, now)

        await context.keep_refreshing(refresh_table)
