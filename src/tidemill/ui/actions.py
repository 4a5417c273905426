"""What one can do on the page: run, kill, pause, resume. Rights are looked up anew; what is dangerous asks first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from nicegui import ui

from tidemill.errors import TidemillError
from tidemill.model.block import Block
from tidemill.model.submission import StoredDataset
from tidemill.runtime.maintenance import pins
from tidemill.runtime.runs.requests import ask, workflow_of, workflow_of_flow
from tidemill.ui.context import Desk, off_loop
from tidemill.ui.elements import Button, Text, box

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions of whoever looks at a page."""

    desk: Desk

    async def run(self, flow: str) -> None:
        catalog = self.desk.mill.catalog
        of = partial(workflow_of_flow, catalog, flow)
        run = await self._done(f"run {flow}", of, lambda: ask(catalog, flow))
        if run is not None:
            ui.notify(f"Run {run.id} of {flow} waits for a track")

    async def kill(self, run: int, of: str) -> None:
        question = f"Kill run {run} of {of}? What it did so far is lost; nothing of it becomes visible."
        if not await confirmed(question, "Kill"):
            return
        mill = self.desk.mill
        workflow = partial(workflow_of, mill.catalog, run)
        if await self._done(f"kill run {run}", workflow, lambda: mill.kill(run)) is not None:
            ui.notify(f"Run {run} was killed")

    async def pause(self, workflow: str) -> None:
        question = f"Pause workflow {workflow}? Servers run nothing of it until it is resumed; what arrives is kept."
        if await confirmed(question, "Pause"):
            await self._set(workflow, paused=True)

    async def resume(self, workflow: str) -> None:
        await self._set(workflow, paused=False)

    async def pin(self, dataset: StoredDataset, *, pinned: bool) -> None:
        """As over the API, for admins alone: a dataset is in no workflow that is registered."""
        shop, name = self.desk.mill.workshop, f"{dataset.workflow}/{dataset.name}"
        verb = "pin" if pinned else "unpin"
        if await self._done(f"{verb} {name}", lambda: None, lambda: shop.pin(dataset.identity, pinned=pinned)):
            ui.notify(f"Dataset {name} is {verb}ned")

    async def pin_block(self, block: Block) -> None:
        """The same for a block, or no longer."""
        catalog, verb = self.desk.mill.catalog, "unpin" if block.pinned else "pin"

        def change() -> bool:
            if block.pinned:
                catalog.unpin(block.id)
            else:
                pins.pin(catalog, block.id)
            return True

        if await self._done(f"{verb} block {block.id}", lambda: None, change):
            ui.notify(f"Block {block.id} of {block.channel} is {verb}ned")

    async def _set(self, workflow: str, *, paused: bool) -> None:
        def change() -> bool:
            self.desk.mill.catalog.pause(workflow, paused=paused)
            return True

        if await self._done(f"{'pause' if paused else 'resume'} {workflow}", lambda: workflow, change):
            ui.notify(f"Workflow {workflow} is {'paused' if paused else 'resumed'}")

    async def _done(self, action: str, workflow: Callable[[], str | None], work: Callable[[], T]) -> T | None:
        """What the work gives, if whoever looks may do it now, and the audit can say so."""
        viewer = self.desk.viewer()

        def permitted() -> T:
            viewer.permit(workflow())
            with viewer.recorded(action):
                return work()

        try:
            return await off_loop(permitted)
        except TidemillError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return None


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
