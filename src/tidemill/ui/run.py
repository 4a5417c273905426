"""`/runs/…`: one run, what it read and wrote, and what it said."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.model.block import Block
from tidemill.model.run import TO_COME, UNDER_WAY, Run
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import Reading
from tidemill.ui import rows
from tidemill.ui.actions import Actions
from tidemill.ui.context import Desk, off_loop
from tidemill.ui.elements import Badge, Button, Facts, Log, Text, box, link, section, subject_url
from tidemill.ui.formatting import NONE, clock, took
from tidemill.ui.page_frame import frame
from tidemill.ui.table import Table


@dataclass(frozen=True, slots=True)
class Told:
    """Everything that the catalog knows of a run."""

    run: Run
    log: str
    readings: tuple[Reading, ...]
    written: tuple[Block, ...]


def told(catalog: CatalogReader, number: int) -> Told:
    run = catalog.run(number)
    return Told(run, catalog.log(number), tuple(catalog.readings(number)), tuple(catalog.written(number)))


async def run(desk: Desk, number: int) -> None:
    with frame(desk, "", f"Run {number}"):
        found = await desk.found(lambda: desk.mill.catalog.run(number), "")
        if found is not None:
            await desk.keep(_Run(desk, found).show)


class _Run:
    def __init__(self, desk: Desk, run: Run) -> None:
        self._desk = desk
        self._number = run.id
        self._of = run.subject
        with box("heading"):
            link(run.subject, subject_url(run), "eyebrow")
            with box("heading-line"):
                Text(f"Run {run.id}", "h1")
                self._state = Badge("ready")
                with box("actions"):
                    self._kill = Button("Kill", self._kill_it, "danger")
        self._error = Text("", "pre", "log error")
        self._facts = Facts(("kind", "of", "attempt", "owner", "asked for", "started", "finished", "took"))
        with section("Tasks"):
            self._tasks = Table("Tasks", rows.STATS, empty="nothing was measured")
        with box("columns"):
            with section("Read"):
                self._reads = Table("Read", rows.READING, empty="nothing, or it did not finish")
            with section("Blocks written"):
                self._written = Table("Blocks", rows.WRITTEN)
        with section("Log"):
            self._log = Log()

    async def _kill_it(self) -> None:
        await Actions(self._desk).kill(self._number, self._of)

    async def show(self) -> None:
        found = await off_loop(told, self._desk.mill.catalog, self._number)
        now, value = await off_loop(self._desk.mill.catalog.now), found.run
        self._state.show(str(value.state))
        alive = value.state in (*UNDER_WAY, *TO_COME)
        self._kill.set_visibility(alive and self._desk.viewer().acts)
        self._error.set_text(value.error or "")
        self._error.set_visibility(bool(value.error))
        self._facts.show(
            kind=value.kind,
            of=value.subject,
            attempt=value.attempt,
            owner=value.owner or NONE,
            asked_for=clock(value.created),
            started=clock(value.started),
            finished=clock(value.finished),
            took=took(value.started, value.finished, now),
        )
        self._tasks.show(rows.of_stats(value.stats.get("tasks", {})))
        self._reads.show([rows.of_reading(r) for r in found.readings])
        self._written.show([rows.of_written(b) for b in found.written])
        self._log.show(found.log)
