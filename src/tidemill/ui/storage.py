"""`/storage`: which datasets are kept and why, what the next eviction would take, and what bringing it back costs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from tidemill.model.submission import StoredDataset
from tidemill.runtime.oneshot.storage_report import Going, Kept, Share
from tidemill.ui.actions import Actions
from tidemill.ui.context import Desk, off_loop
from tidemill.ui.elements import Text, run_url, section
from tidemill.ui.formatting import NONE, ago, plural, size, span
from tidemill.ui.page_frame import frame
from tidemill.ui.table import Cell, Row, Table

SHOWN = 200
SHARE = ("datasets of", ">held", ">budget", ">evicts from")
NAMED = ("identity", "dataset", ">size")


async def storage(desk: Desk) -> None:
    with frame(desk, "/storage", "Storage"):
        view = _Storage(desk, pins=await off_loop(partial(desk.viewer().may, None)))
        await desk.keep(view.show)


class _Storage:
    def __init__(self, desk: Desk, *, pins: bool) -> None:
        """`pins`: may whoever looks pin datasets? They are in no workflow, so that needs a right on all of them."""
        self._desk = desk
        self._pins = pins
        self._evictor = desk.mill.workshop.evictor()  # remembers the history, so that looking again is cheap
        Text("Storage", "h1")
        with section("Budgets"):
            self._shares = Table("Budgets", SHARE)
            self._problems = Text("", "p", "banner")
        with section("Would go next", "if space gets short"):
            self._going = Table("Would go next", (*NAMED, ">to bring back"), empty="nothing")
            self._told = Text("", "p", "muted")
        with section("Kept"):
            self._kept = Table("Kept", (*NAMED, ">took", "used", "state", "why it is there", ""), empty="nothing")
            self._more = Text("", "p", "muted")

    async def show(self) -> None:
        found = await off_loop(self._evictor.storage)
        now = await off_loop(self._desk.mill.catalog.now)
        self._shares.show([_share(s) for s in (found.shares.store, *found.shares.workflows)])
        self._problems.set_text(" ".join(found.problems))
        self._problems.set_visibility(bool(found.problems))
        self._going.show([_going(g) for g in found.going[:SHOWN]])
        self._told.set_text(f"{size(found.freed)} would be freed; to bring all of it back takes {span(found.seconds)}.")
        self._told.set_visibility(bool(found.going))
        self._kept.show([self._row(k, now) for k in found.kept[:SHOWN]])
        left = len(found.kept) - SHOWN
        self._more.set_text(f"And {plural(left, 'smaller one')}.")
        self._more.set_visibility(left > 0)

    def _row(self, kept: Kept, now: float) -> Row:
        it = kept.dataset
        last = Cell("Unpin" if it.pinned else "Pin", act=self._pin(it)) if self._pins else Cell("")
        return (*_named(it), span(it.seconds), ago(it.used, now), str(it.state), kept.why, last)

    def _pin(self, dataset: StoredDataset) -> Callable[[], Awaitable[None]]:
        return lambda: Actions(self._desk).pin(dataset, pinned=not dataset.pinned)


def _share(share: Share) -> Row:
    limits = (NONE, NONE) if share.budget is None else (size(share.budget.bytes), size(share.budget.limit))
    return ("all" if share.workflow is None else share.workflow, size(share.held), *limits)


def _going(going: Going) -> Row:
    return (*_named(going.dataset), span(going.seconds))


def _named(dataset: StoredDataset) -> tuple[Cell | str, ...]:
    name = f"{dataset.workflow}/{dataset.name}"
    made = name if dataset.run is None else Cell(name, run_url(dataset.run))
    return dataset.identity[:12], made, size(dataset.bytes)
