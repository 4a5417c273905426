"""`/flows/…`: one bound flow, its triggers and its runs."""

from dataclasses import dataclass, replace

from tidemill.display import columns
from tidemill.errors import NotFound
from tidemill.model.run import ACTIVE_STATES, PENDING_STATES, Run, RunKind
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import TriggerFiring
from tidemill.runtime.inspect.status import FlowStatus
from tidemill.ui.actions import PageActions
from tidemill.ui.context import PageContext, open_frame
from tidemill.ui.elements import ActionButton, LogView, PageHeading, add_section, run_off_loop
from tidemill.ui.health import judge_health
from tidemill.ui.snapshot import ProjectSnapshot
from tidemill.ui.table import ValueTable

RUNS = 50
FIRINGS = 20


@dataclass(frozen=True, slots=True)
class FlowHistory:
    """A flow's runs, the newest first, the last one's log, and the firings that started them."""

    runs: tuple[Run, ...]
    log: str
    firings: tuple[TriggerFiring, ...]


def read_flow_history(catalog: CatalogReader, flow: str) -> FlowHistory:
    runs = [r for r in catalog.runs.list(subject=flow, limit=RUNS) if r.kind is RunKind.FLOW]
    log = catalog.runs.read_log(runs[0].id) if runs else ""
    return FlowHistory(tuple(runs), log, tuple(catalog.triggers.list_firings(flow, FIRINGS)))


async def show_flow(context: PageContext, name: str) -> None:
    with open_frame(context, "", name):
        snapshot = await context.feed.read_snapshot()
        if await context.find_or_report(lambda: snapshot.flow_index.get(name), f"No flow {name!r} is registered."):
            await context.keep_refreshing(_FlowPage(context, name).refresh_page)


class _FlowPage:
    def __init__(self, context: PageContext, name: str) -> None:
        self._context = context
        self._name = name
        self._workflow = ""
        self._running: Run | None = None
        self._heading = PageHeading("bound flow", name)
        with self._heading.actions:
            self._add_buttons()
        with add_section("Tasks"):
            self._tasks = ValueTable("Tasks", columns.TASK)
        with add_section("Triggers", "the conditions under which it runs"):
            self._triggers = ValueTable("Triggers", columns.TRIGGER[1:], empty="none: it only runs on request")
        with add_section("Runs"):
            self._runs = ValueTable("Runs", columns.RUN, empty="never run")
        with add_section("Log of the last run") as self._log_section:
            self._log = LogView()
        with add_section("Firings"):
            self._firings = ValueTable("Firings", columns.FIRING[1:])

    def _add_buttons(self) -> None:
        actions = PageActions(self._context)
        self._run = ActionButton("Run", lambda: actions.run_flow(self._name), "primary")
        self._kill = ActionButton("Kill", self._kill_running, "danger")
        self._pause = ActionButton("Pause workflow", lambda: actions.pause_workflow(self._workflow, paused=True))
        self._resume = ActionButton("Resume workflow", lambda: actions.pause_workflow(self._workflow, paused=False))

    async def _kill_running(self) -> None:
        if self._running is not None:
            await PageActions(self._context).kill_run(self._running.id, self._name)

    async def refresh_page(self, snapshot: ProjectSnapshot, now: float) -> None:
        flow = snapshot.flow_index.get(self._name)
        if flow is None:
            raise NotFound(f"flow {self._name!r} is no longer registered")
        history = await run_off_loop(read_flow_history, self._context.mill.catalog, self._name)
        self._show_buttons(snapshot, flow, history)
        self._heading.show_health(judge_health(snapshot, now).flows[self._name])
        self._tasks.show_values([replace(t, location=self._context.format_location(t.location)) for t in flow.tasks])
        self._triggers.show_values(snapshot.trigger_index[self._name], now)
        self._runs.show_values(history.runs, now)
        can_read_log = await run_off_loop(self._context.get_viewer().can_act, flow.workflow)
        self._log_section.set_visibility(can_read_log)
        self._log.show_text(history.log if can_read_log else "")
        self._firings.show_values(history.firings, now)

    def _show_buttons(self, snapshot: ProjectSnapshot, flow: FlowStatus, history: FlowHistory) -> None:
        active = (r for r in history.runs if r.state in (*ACTIVE_STATES, *PENDING_STATES))
        self._running = next(active, None)
        self._workflow = flow.workflow
        paused = flow.workflow in snapshot.paused_workflows
        can_act = self._context.get_viewer().can_act_somewhere
        self._run.set_visibility(can_act)
        self._kill.set_visibility(can_act and self._running is not None)
        self._pause.set_visibility(can_act and not paused)
        self._resume.set_visibility(can_act and paused)
