"""Actions on the pages: run, kill, pause, resume, pin, maintain.

Permissions are checked each time; destructive actions ask first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from nicegui import ui

from tidemill.app import maintenance
from tidemill.display.formatting import format_plural
from tidemill.errors import TidemillError
from tidemill.model.block import Block
from tidemill.model.submission import StoredDataset
from tidemill.runtime.maintenance import pins
from tidemill.runtime.runs.requests import find_flow_workflow, find_run_workflow, request_flow_run
from tidemill.ui.context import PageContext
from tidemill.ui.elements import ActionButton, HtmlText, add_box, run_off_loop

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageActions:
    """The actions of a page's viewer."""

    context: PageContext

    async def run_flow(self, flow: str) -> None:
        catalog = self.context.mill.catalog
        find_workflow = partial(find_flow_workflow, catalog.flows, flow)
        run = await self._perform_action(f"run {flow}", find_workflow, lambda: request_flow_run(catalog, flow))
        if run is not None:
            ui.notify(f"Run {run.id} of {flow} waits for a track")

    async def kill_run(self, run: int, subject: str) -> None:
        question = f"Kill run {run} of {subject}? Its work so far is lost; none of its results become visible."
        if not await ask_confirmation(question, "Kill"):
            return
        mill = self.context.mill
        find_workflow = partial(find_run_workflow, mill.catalog, run)
        kill = partial(mill.catalog.runs.kill, run)
        if await self._perform_action(f"kill run {run}", find_workflow, kill) is not None:
            ui.notify(f"Run {run} was killed")

    async def pause_workflow(self, workflow: str) -> None:
        question = (
            f"Pause workflow {workflow}? Servers run none of its flows until it is resumed; arriving data is stored."
        )
        if await ask_confirmation(question, "Pause"):
            await self._set_paused(workflow, paused=True)

    async def resume_workflow(self, workflow: str) -> None:
        await self._set_paused(workflow, paused=False)

    async def compact_channel(self, channel: str) -> None:
        mill = self.context.mill

        def compact() -> str:
            block = mill.compact(channel)
            return "nothing to merge" if block is None else f"compacted to {format_plural(block.rows, 'row')}"

        def find_workflow() -> str:
            return mill.catalog.channels.read(channel).workflow

        outcome = await self._perform_action(f"compact {channel}", find_workflow, compact)
        if outcome is not None:
            ui.notify(f"{channel}: {outcome}")

    async def pause_maintenance(self, *, paused: bool) -> None:
        """Pause or resume maintenance: as over the API, for admins only, because it affects every workflow."""
        verb = "pause" if paused else "resume"
        question = "Pause maintenance on all servers? Without compaction, reads become slower and storage grows."
        if paused and not await ask_confirmation(question, "Pause"):
            return

        def apply_pause() -> bool:
            maintenance.pause_maintenance(self.context.mill, paused=paused)
            return True

        if await self._perform_action(f"{verb} maintenance", lambda: None, apply_pause):
            ui.notify(f"Maintenance is {verb}d")

    async def run_maintenance(self) -> None:
        run = partial(maintenance.run_maintenance, self.context.mill)
        result = await self._perform_action("run maintenance", lambda: None, run)
        if result is not None:
            ui.notify(" ".join(result.problems) or "The due maintenance is done")

    async def pin_dataset(self, dataset: StoredDataset, *, pinned: bool) -> None:
        """Pin or unpin a dataset: as over the API, for admins only, because datasets belong to no registered
        workflow.
        """
        service, name = self.context.mill.oneshot_service, f"{dataset.workflow}/{dataset.name}"
        verb = "pin" if pinned else "unpin"
        if await self._perform_action(
            f"{verb} {name}", lambda: None, lambda: service.pin_dataset(dataset.identity, pinned=pinned)
        ):
            ui.notify(f"Dataset {name} is {verb}ned")

    async def pin_block(self, block: Block) -> None:
        """Pin a block, or unpin it if it is pinned."""
        catalog, verb = self.context.mill.catalog, "unpin" if block.pinned else "pin"

        def toggle_pin() -> bool:
            if block.pinned:
                catalog.blocks.unpin(block.id)
            else:
                pins.pin_block(catalog, block.id)
            return True

        if await self._perform_action(f"{verb} block {block.id}", lambda: None, toggle_pin):
            ui.notify(f"Block {block.id} of {block.channel} is {verb}ned")

    async def _set_paused(self, workflow: str, *, paused: bool) -> None:
        def apply_pause() -> bool:
            self.context.mill.catalog.workflows.set_paused(workflow, paused=paused)
            return True

        if await self._perform_action(f"{'pause' if paused else 'resume'} {workflow}", lambda: workflow, apply_pause):
            ui.notify(f"Workflow {workflow} is {'paused' if paused else 'resumed'}")

    async def _perform_action(self, action: str, workflow: Callable[[], str | None], work: Callable[[], T]) -> T | None:
        """The result of the work, if the viewer has the permission now; the action is recorded in the audit log."""
        viewer = self.context.get_viewer()

        def run_permitted() -> T:
            viewer.check_permission(workflow())
            with viewer.record_action(action):
                return work()

        try:
            return await run_off_loop(run_permitted)
        except TidemillError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return None


async def ask_confirmation(question: str, verb: str) -> bool:
    """Ask before an action that cannot be undone, or that affects others.

    The dialog belongs to the page: the clicked element may be rebuilt or removed before there is an answer.
    """
    with ui.context.client.content, ui.dialog() as dialog, add_box("ask"):
        HtmlText(question, "p")
        with add_box("actions"):
            _add_answer_button(dialog, "Cancel", False).props["autofocus"] = True
            _add_answer_button(dialog, verb, True).classes("danger")
    answer = await dialog
    dialog.delete()
    return answer is True


def _add_answer_button(dialog: ui.dialog, text: str, value: bool) -> HtmlText:
    async def submit_answer() -> None:
        dialog.submit(value)

    return ActionButton(text, submit_answer)
