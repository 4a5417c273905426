"""Upkeep: tidying that goes on by itself, until somebody stops it.

It stops for good where the settings say so, for a while if people wish it (`tidemill upkeep --pause`), and at once when
its process is to end. What is in the middle of a step goes on to the end of it: a compaction is a run, which can be
killed like any other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tidemill.model.block import Block
from tidemill.model.change import Updates
from tidemill.model.instant import microseconds
from tidemill.ports import CatalogReader
from tidemill.retain.compaction import LIMITS, Limits, worth_a_look
from tidemill.runtime.compaction import REWRITING, Compactor
from tidemill.runtime.execute import Executor
from tidemill.runtime.janitor import Janitor, Tidied, to_the_end

log = logging.getLogger("tidemill.server")

WISH = "upkeep"
PAUSED = "paused"


def is_paused(catalog: CatalogReader) -> bool:
    return bool(catalog.wished().get(WISH) == PAUSED)


@dataclass(frozen=True, slots=True)
class Rules:
    """What is kept, and whether anything is done about the rest unasked."""

    automatic: bool = True
    history: int = 100  # runs remembered of each channel and flow
    points: int = 0  # so many of the newest contents of a channel stay readable
    keep: float | None = None  # and those of so many seconds
    limits: Limits = LIMITS


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Of all channels of one catalog; `stopping` is set when the process is to end."""

    executor: Executor
    updates: Callable[[], Mapping[str, Updates]]
    rules: Rules = Rules()
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def compactor(self) -> Compactor:
        return Compactor(self.executor, self.updates(), self.rules.limits)

    def tidy(self, channels: Iterable[str] | None = None) -> Tidied:
        """Do what is due on these channels, or on all, to the end: somebody asked for it."""
        return self._tidied(Janitor(self.executor, to_the_end), channels)

    def after(self, made: Iterable[Block]) -> None:
        """Look where something may be due: on what runs wrote and read, and where reading has become dear."""
        if not self.rules.automatic:
            return
        catalog = self.executor.catalog
        many = [b for b in made if worth_a_look(b, self.rules.limits)]
        due = {b.channel for b in many}
        due |= {r.channel for run in {b.run for b in many if b.run is not None} for r in catalog.readings(run)}
        due |= {m.channel for m in catalog.merging(paid=REWRITING.start)}
        if due and self.may_go_on():
            _say(self._tidied(self._janitor, sorted(due)))

    def keep_house(self) -> None:
        """Look everywhere, and sweep what crashed runs left behind."""
        if self.rules.automatic and self.may_go_on():
            _say(self._tidied(self._janitor, None))
            self._sweep()

    def may_go_on(self) -> bool:
        return not self.stopping.is_set() and not is_paused(self.executor.catalog)

    @property
    def _janitor(self) -> Janitor:
        return Janitor(self.executor, self.may_go_on)

    def _tidied(self, janitor: Janitor, channels: Iterable[str] | None) -> Tidied:
        catalog, rules = self.executor.catalog, self.rules
        names = [c.channel.name for c in catalog.channels()] if channels is None else channels
        since = None if rules.keep is None else microseconds(catalog.now() - rules.keep)
        return janitor.tidy(names, self.compactor, history=rules.history, points=rules.points, keep_since=since)

    def _sweep(self) -> None:
        swept = self._janitor.sweep() if self.may_go_on() else 0
        if swept:
            log.info("upkeep: %d files swept that no block names", swept)


def _say(done: Tidied) -> None:
    for problem in done.problems:
        log.warning("upkeep: %s", problem)
    if done != Tidied(problems=done.problems):
        log.info(
            "upkeep: %d folds and %d new bases made, %d blocks and %d files removed, %d runs forgotten",
            len(done.folded),
            len(done.rebased),
            done.collected.blocks,
            done.collected.files,
            done.forgotten.runs,
        )
