"""Actions on the pages: run, kill, pause, resume, pin, maintain.

Permissions are checked each time; destructive actions ask first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from nicegui import ui

from tidemill.app import inspection, maintenance
from tidemill.display.formatting import format_plural
from tidemill.errors import TidemillError
from tidemill.model.block import Block
from tidemill.model.submission import StoredDataset
from tidemill.runtime.runs.requests import find_flow_workflow, find_run_workflow, request_flow_run
from tidemill.ui.context import PageContext, Viewer
from tidemill.ui.elements import ActionButton, HtmlText, add_box, run_off_loop

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageActions:
    context: PageContext

    async def run_flow(self, flow: str) -> None:
        catalog = self.context.mill.catalog
        await self._perform_action(
            f"run {flow}",
            partial(find_flow_workflow, catalog.flows, flow),
            partial(request_flow_run, catalog, flow),
            lambda run: f"Run {run.id} of {flow} waits for a track",
        )

    async def kill_run(self, run: int, subject: str) -> None:
        question = f"Kill run {run} of {subject}? Its work so far is lost; none of its results become visible."
        if await ask_confirmation(question, "Kill"):
            catalog = self.context.mill.catalog
            find_workflow, kill = partial(find_run_workflow, catalog, run), partial(catalog.runs.kill, run)
            await self._perform_action(f"kill run {run}", find_workflow, kill, lambda _: f"Run {run} was killed")

    async def pause_workflow(self, workflow: str, *, paused: bool) -> None:
        """Pause or resume a workflow."""
        effect = "Servers run none of its flows until it is resumed; arriving data is stored."
        if not paused or await ask_confirmation(f"Pause workflow {workflow}? {effect}", "Pause"):
            verb = "pause" if paused else "resume"
            pause = partial(self.context.mill.catalog.workflows.set_paused, workflow, paused=paused)
            await self._perform_action(
                f"{verb} {workflow}", lambda: workflow, pause, lambda _: f"Workflow {workflow} is {verb}d"
            )

    async def compact_channel(self, channel: str) -> None:
        mill = self.context.mill

        def describe(block: Block | None) -> str:
            merged = "nothing to merge" if block is None else f"compacted to {format_plural(block.rows, 'row')}"
            return f"{channel}: {merged}"

        def find_workflow() -> str:
            return mill.catalog.channels.read(channel).workflow

        await self._perform_action(f"compact {channel}", find_workflow, partial(mill.compact, channel), describe)

    async def pause_maintenance(self, *, paused: bool) -> None:
        """Pause or resume maintenance: as over the API, for admins only, because it affects every workflow."""
        question = "Pause maintenance on all servers? Without compaction, reads become slower and storage grows."
        if not paused or await ask_confirmation(question, "Pause"):
            verb = "pause" if paused else "resume"
            pause = partial(maintenance.pause_maintenance, self.context.mill, paused=paused)
            await self._perform_action(f"{verb} maintenance", _find_none, pause, lambda _: f"Maintenance is {verb}d")

    async def run_maintenance(self) -> None:
        run = partial(maintenance.run_maintenance, self.context.mill)
        await self._perform_action(
            "run maintenance", _find_none, run, lambda r: " ".join(r.problems) or "The due maintenance is done"
        )

    async def pin_dataset(self, dataset: StoredDataset) -> None:
        """Pin a dataset, or unpin it: as over the API, for admins only, because it belongs to no workflow."""
        name, verb = f"{dataset.workflow}/{dataset.name}", "unpin" if dataset.pinned else "pin"
        pin = partial(self.context.mill.oneshot_service.pin_dataset, dataset.identity, pinned=not dataset.pinned)
        await self._perform_action(f"{verb} {name}", _find_none, pin, lambda _: f"Dataset {name} is {verb}ned")

    async def pin_block(self, block: Block) -> None:
        """Pin a block, or unpin it if it is pinned."""
        verb = "unpin" if block.pinned else "pin"
        pin = partial(inspection.pin_block, self.context.mill.catalog, block.id, pinned=not block.pinned)
        await self._perform_action(
            f"{verb} block {block.id}", _find_none, pin, lambda _: f"Block {block.id} of {block.channel} is {verb}ned"
        )

    async def _perform_action(
        self, action: str, workflow: Callable[[], str | None], work: Callable[[], T], describe: Callable[[T], str]
    ) -> None:
        """Do the work if the viewer has the permission now, and show the result; the audit log has the action."""

        def run_permitted(viewer: Viewer) -> T:
            viewer.check_permission(workflow())
            with viewer.record_action(action):
                return work()

        try:
            viewer = await self.context.check_viewer()
            if viewer is not None:
                ui.notify(describe(await run_off_loop(run_permitted, viewer)))
        except TidemillError as error:
            ui.notify(self.context.mill.redactor.summarize(error), type="negative", multi_line=True)


def _find_none() -> None:
    """The workflow of objects that belong to none."""


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
