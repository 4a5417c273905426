"""What one can do on the page: run, kill, pause, resume. Rights are looked up anew; what is dangerous asks first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from nicegui import ui

from tidemill.errors import NotFound, TidemillError
from tidemill.model.run import LOST, Run, RunKind, RunState
from tidemill.ports import CatalogWriter
from tidemill.ui.desk import Desk
from tidemill.ui.parts import Button, Text, box
from tidemill.ui.threads import off_loop
from tidemill.ui.viewer import Viewer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions of whoever looks at a page."""

    desk: Desk

    async def run(self, flow: str) -> None:
        if self._may(lambda v: v.may_run):
            run = await self._done(lambda: asked_for(self.desk.mill.catalog, flow))
            if run is not None:
                ui.notify(f"Run {run.id} of {flow} waits for a track")

    async def kill(self, run: int, of: str) -> None:
        question = f"Kill run {run} of {of}? What it did so far is lost; nothing of it becomes visible."
        if self._may(lambda v: v.may_kill) and await confirmed(question, "Kill"):
            killed = await self._done(lambda: self.desk.mill.kill(run))
            if killed is not None:
                ui.notify(f"Run {run} was killed")

    async def pause(self, workflow: str) -> None:
        question = f"Pause workflow {workflow}? Servers run nothing of it until it is resumed; what arrives is kept."
        if self._may(lambda v: v.may_pause) and await confirmed(question, "Pause"):
            await self._set(workflow, paused=True)

    async def resume(self, workflow: str) -> None:
        if self._may(lambda v: v.may_pause):
            await self._set(workflow, paused=False)

    async def _set(self, workflow: str, *, paused: bool) -> None:
        def change() -> bool:
            self.desk.mill.catalog.pause(workflow, paused=paused)
            return True

        if await self._done(change):
            ui.notify(f"Workflow {workflow} is {'paused' if paused else 'resumed'}")

    def _may(self, allowed: Callable[[Viewer], bool]) -> bool:
        if allowed(self.desk.viewer()):
            return True
        ui.notify("You may not do that; ask whoever runs this server", type="warning")
        return False

    async def _done(self, work: Callable[[], T]) -> T | None:
        try:
            return await off_loop(work)
        except TidemillError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return None


def asked_for(catalog: CatalogWriter, flow: str) -> Run:
    """A run of a flow that the next free track takes; one that waits already will see all there is."""
    binding = next((b for b in catalog.bindings() if b.name == flow), None)
    if binding is None:
        raise NotFound(f"no flow {flow!r} is registered any more; look at the graph for those that are")
    waiting = [r for r in catalog.runs(state=RunState.READY, subject=flow) if r.kind is RunKind.FLOW]
    if waiting:
        return waiting[-1]
    return catalog.request(RunKind.FLOW, flow, attempts=int(binding.spec.get("attempts", 1)) + LOST)


async def confirmed(question: str, verb: str) -> bool:
    """Ask before something is done that cannot be undone, or that others will notice.

    The question belongs to the page: what was clicked may be shown anew, or go, before there is an answer.
    """
    with ui.context.client.content, ui.dialog() as dialog, box("ask"):
        Text(question, "p")
        with box("actions"):
            _answer(dialog, "Cancel", False).props["autofocus"] = True
            _answer(dialog, verb, True).classes("danger")
    answer = await dialog
    dialog.delete()
    return answer is True


def _answer(dialog: ui.dialog, text: str, value: bool) -> Text:
    async def submit() -> None:
        dialog.submit(value)

    return Button(text, submit)
