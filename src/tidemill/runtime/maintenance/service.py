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
from tidemill.model.store import Grace
from tidemill.model.timestamps import microseconds
from tidemill.ports.catalog import CatalogReader
from tidemill.retention.compaction import LIMITS, Limits, worth_a_look
from tidemill.runtime.maintenance.compaction import REWRITING, Compactor
from tidemill.runtime.maintenance.store_ownership import advance_marker
from tidemill.runtime.maintenance.vacuum import Janitor, Tidied, to_the_end
from tidemill.runtime.runs.execution import Executor

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
    grace: Grace = Grace()
    limits: Limits = LIMITS


class Background:
    """Does upkeep in a thread of its own, one piece at a time; there is one only while something is due.

    Channels that become due meanwhile are done next, once each however often they became due.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: set[str] = set()
        self._thread: threading.Thread | None = None

    def add(self, channels: Iterable[str], work: Callable[[set[str]], None]) -> None:
        """Let `work` be done on these channels soon; returns at once."""
        with self._lock:
            self._due.update(channels)
            if self._due and self._thread is None:
                self._thread = threading.Thread(target=self._run, args=(work,), name="tidemill-upkeep", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Return when nothing is due any more."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self, work: Callable[[set[str]], None]) -> None:
        while True:
            with self._lock:
                due, self._due = self._due, set()
                if not due:
                    self._thread = None
                    return
            try:
                work(due)
            except Exception:
                log.exception("upkeep")


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Of all channels of one catalog; `stopping` is set when the process is to end."""

    executor: Executor
    updates: Callable[[], Mapping[str, Updates]]
    rules: Rules = Rules()
    stopping: threading.Event = field(default_factory=threading.Event)
    background: Background = field(default_factory=Background)

    @property
    def compactor(self) -> Compactor:
        return Compactor(self.executor, self.updates(), self.rules.limits)

    def tidy(self, channels: Iterable[str] | None = None) -> Tidied:
        """Do what is due on these channels, or on all, to the end: somebody asked for it."""
        return self._tidied(Janitor(self.executor, to_the_end, self.rules.grace), channels)

    def after(self, made: Iterable[Block]) -> None:
        """Do what is due after a run, to the end."""
        self._tidy_due(self._find_due(made))

    def begin_after(self, made: Iterable[Block]) -> None:
        """Let what is due after a run be done in the background: the next run of the flow does not wait for it.

        A compaction may be the first that needs Spark, and starting that takes long.
        """
        self.background.add(self._find_due(made), self._tidy_due)

    def finish(self) -> None:
        """Wait for what is done in the background; once `stopping` is set, for the step that is under way."""
        self.background.wait()

    def _find_due(self, made: Iterable[Block]) -> set[str]:
        """Where something may be due: on what runs wrote and read, and where reading has become dear."""
        if not self.rules.automatic:
            return set()
        catalog = self.executor.catalog
        many = [b for b in made if worth_a_look(b, self.rules.limits)]
        due = {b.channel for b in many}
        due |= {r.channel for run in {b.run for b in many if b.run is not None} for r in catalog.readings(run)}
        return due | {m.channel for m in catalog.merging(paid=REWRITING.start)}

    def _tidy_due(self, due: set[str]) -> None:
        if due and self.may_go_on():
            _say(self._tidied(self._janitor, sorted(due)))

    def keep_house(self) -> None:
        """Look everywhere, and let the store know how far its catalog has come."""
        if self.rules.automatic and self.may_go_on():
            _say(self._tidied(self._janitor, None))
            self._janitor.drop_copies()
        advance_marker(self.executor.catalog, self.executor.store)

    def may_go_on(self) -> bool:
        return not self.stopping.is_set() and not is_paused(self.executor.catalog)

    @property
    def _janitor(self) -> Janitor:
        return Janitor(self.executor, self.may_go_on, self.rules.grace)

    def _tidied(self, janitor: Janitor, channels: Iterable[str] | None) -> Tidied:
        catalog, rules = self.executor.catalog, self.rules
        names = [c.channel.name for c in catalog.channels()] if channels is None else channels
        since = None if rules.keep is None else microseconds(catalog.now() - rules.keep)
        return janitor.tidy(names, self.compactor, history=rules.history, points=rules.points, keep_since=since)


def _say(done: Tidied) -> None:
    for problem in done.problems:
        log.warning("upkeep: %s", problem)
    if done != Tidied(problems=done.problems):
        log.info(
            "upkeep: %d folds and %d new bases made, %d blocks collected, %d files marked and %d removed, "
            "%d runs forgotten",
            len(done.folded),
            len(done.rebased),
            done.collected.blocks,
            done.collected.marked,
            done.collected.files,
            done.forgotten.runs,
        )
