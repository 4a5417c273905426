"""`/flows/…`: one bound flow, what makes it run, and how that went."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.errors import NotFound
from tidemill.model.run import TO_COME, UNDER_WAY, Run, RunKind
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import Firing
from tidemill.runtime.inspect.status import FlowStatus
from tidemill.ui import rows
from tidemill.ui.actions import Actions
from tidemill.ui.context import Desk, off_loop
from tidemill.ui.elements import Button, Heading, Log, section
from tidemill.ui.health import judged
from tidemill.ui.page_frame import frame
from tidemill.ui.snapshot import Snapshot
from tidemill.ui.table import Table

RUNS = 50
FIRINGS = 20


@dataclass(frozen=True, slots=True)
class Past:
    """How a flow's runs went: the newest first, the last one's log, and what made them start."""

    runs: tuple[Run, ...]
    log: str
    firings: tuple[Firing, ...]


def past(catalog: CatalogReader, flow: str) -> Past:
    runs = [r for r in catalog.runs(subject=flow, limit=RUNS) if r.kind is RunKind.FLOW]
    log = catalog.log(runs[0].id) if runs else ""
    return Past(tuple(runs), log, tuple(catalog.firings(flow, FIRINGS)))


async def flow(desk: Desk, name: str) -> None:
    with frame(desk, "", name):
        snapshot = await desk.feed.snapshot()
        if await desk.found(lambda: snapshot.flow(name), f"No flow {name!r} is registered."):
            await desk.keep(_Flow(desk, name).show)


class _Flow:
    def __init__(self, desk: Desk, name: str) -> None:
        self._desk = desk
        self._name = name
        self._workflow = ""
        self._running: Run | None = None
        self._heading = Heading("bound flow", name)
        with self._heading.actions:
            self._buttons()
        with section("Tasks"):
            self._tasks = Table("Tasks", rows.TASK)
        with section("Triggers", "what makes it run"):
            self._triggers = Table("Triggers", rows.TRIGGER[1:], empty="none: it runs when somebody says so")
        with section("Runs"):
            self._runs = Table("Runs", rows.RUN, empty="never run")
        with section("Log of the last run"):
            self._log = Log()
        with section("Firings"):
            self._firings = Table("Firings", rows.FIRING[1:])

    def _buttons(self) -> None:
        actions = Actions(self._desk)
        self._run = Button("Run", lambda: actions.run(self._name), "primary")
        self._kill = Button("Kill", self._kill_it, "danger")
        self._pause = Button("Pause workflow", lambda: actions.pause(self._workflow))
        self._resume = Button("Resume workflow", lambda: actions.resume(self._workflow))
        self._acts = self._desk.viewer().acts

    async def _kill_it(self) -> None:
        if self._running is not None:
            await Actions(self._desk).kill(self._running.id, self._name)

    async def show(self) -> None:
        snapshot = await self._desk.feed.snapshot()
        known = snapshot.flow(self._name)
        if known is None:
            raise NotFound(f"flow {self._name!r} is no longer registered")
        was = await off_loop(past, self._desk.mill.catalog, self._name)
        now = await off_loop(self._desk.mill.catalog.now)
        self._show_buttons(snapshot, known, was)
        self._heading.show(judged(snapshot, now).flows[self._name])
        self._tasks.show([rows.of_task(t, self._desk.place(t.location)) for t in known.tasks])
        self._triggers.show([rows.of_trigger(t, now)[1:] for t in snapshot.triggers_of(self._name)])
        self._runs.show([rows.of_run(r, now) for r in was.runs])
        self._log.show(was.log)
        self._firings.show([rows.of_firing(f, now)[1:] for f in was.firings])

    def _show_buttons(self, snapshot: Snapshot, known: FlowStatus, was: Past) -> None:
        under_way = (r for r in was.runs if r.state in (*UNDER_WAY, *TO_COME))
        self._running = next(under_way, None)
        self._workflow = known.workflow
        paused = known.workflow in snapshot.paused
        self._run.set_visibility(self._acts)
        self._kill.set_visibility(self._acts and self._running is not None)
        self._pause.set_visibility(self._acts and not paused)
        self._resume.set_visibility(self._acts and paused)
