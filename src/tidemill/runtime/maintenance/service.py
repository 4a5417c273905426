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
from tidemill.model.store import GracePeriods
from tidemill.model.timestamps import to_microseconds
from tidemill.ports.catalog import CatalogReader
from tidemill.retention.compaction import LIMITS, CompactionLimits, is_check_due
from tidemill.runtime.maintenance.compaction import REWRITING, Compactor
from tidemill.runtime.maintenance.store_ownership import advance_marker
from tidemill.runtime.maintenance.vacuum import MaintenanceResult, VacuumService, always_continue
from tidemill.runtime.runs.execution import Executor

log = logging.getLogger("tidemill.server")

WISH = "upkeep"
PAUSED = "paused"


def is_paused(catalog: CatalogReader) -> bool:
    return bool(catalog.read_setting_overrides().get(WISH) == PAUSED)


@dataclass(frozen=True, slots=True)
class MaintenanceRules:
    """What is kept, and whether anything is done about the rest unasked."""

    automatic: bool = True
    history: int = 100  # runs remembered of each channel and flow
    points: int = 0  # so many of the newest contents of a channel stay readable
    keep: float | None = None  # and those of so many seconds
    grace: GracePeriods = GracePeriods()
    limits: CompactionLimits = LIMITS


class BackgroundMaintenance:
    """Does upkeep in a thread of its own, one piece at a time; there is one only while something is due.

    Channels that become due meanwhile are done next, once each however often they became due.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: set[str] = set()
        self._thread: threading.Thread | None = None

    def schedule_channels(self, channels: Iterable[str], work: Callable[[set[str]], None]) -> None:
        """Let `work` be done on these channels soon; returns at once."""
        with self._lock:
            self._due.update(channels)
            if self._due and self._thread is None:
                self._thread = threading.Thread(target=self._run_due, args=(work,), name="tidemill-upkeep", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Return when nothing is due any more."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run_due(self, work: Callable[[set[str]], None]) -> None:
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
class MaintenanceService:
    """Of all channels of one catalog; `stopping` is set when the process is to end."""

    executor: Executor
    updates: Callable[[], Mapping[str, Updates]]
    rules: MaintenanceRules = MaintenanceRules()
    stopping: threading.Event = field(default_factory=threading.Event)
    background: BackgroundMaintenance = field(default_factory=BackgroundMaintenance)

    @property
    def compactor(self) -> Compactor:
        return Compactor(self.executor, self.updates(), self.rules.limits)

    def maintain_channels(self, channels: Iterable[str] | None = None) -> MaintenanceResult:
        """Do what is due on these channels, or on all, to the end: somebody asked for it."""
        return self._maintain_channels(VacuumService(self.executor, always_continue, self.rules.grace), channels)

    def maintain_after(self, made: Iterable[Block]) -> None:
        """Do what is due after a run, to the end."""
        self._maintain_due(self._find_due_channels(made))

    def begin_maintenance(self, made: Iterable[Block]) -> None:
        """Let what is due after a run be done in the background: the next run of the flow does not wait for it.

        A compaction may be the first that needs Spark, and starting that takes long.
        """
        self.background.schedule_channels(self._find_due_channels(made), self._maintain_due)

    def finish(self) -> None:
        """Wait for what is done in the background; once `stopping` is set, for the step that is under way."""
        self.background.wait()

    def _find_due_channels(self, made: Iterable[Block]) -> set[str]:
        """Where something may be due: on what runs wrote and read, and where reading has become dear."""
        if not self.rules.automatic:
            return set()
        catalog = self.executor.catalog
        many = [b for b in made if is_check_due(b, self.rules.limits)]
        due = {b.channel for b in many}
        due |= {r.channel for run in {b.run for b in many if b.run is not None} for r in catalog.list_run_reads(run)}
        return due | {m.channel for m in catalog.list_merge_costs(paid=REWRITING.start)}

    def _maintain_due(self, due: set[str]) -> None:
        if due and self.can_continue():
            _log_result(self._maintain_channels(self._vacuum_service, sorted(due)))

    def run_maintenance(self) -> None:
        """Look everywhere, and let the store know how far its catalog has come."""
        if self.rules.automatic and self.can_continue():
            _log_result(self._maintain_channels(self._vacuum_service, None))
            self._vacuum_service.drop_copies()
        advance_marker(self.executor.catalog, self.executor.store)

    def can_continue(self) -> bool:
        return not self.stopping.is_set() and not is_paused(self.executor.catalog)

    @property
    def _vacuum_service(self) -> VacuumService:
        return VacuumService(self.executor, self.can_continue, self.rules.grace)

    def _maintain_channels(self, janitor: VacuumService, channels: Iterable[str] | None) -> MaintenanceResult:
        catalog, rules = self.executor.catalog, self.rules
        names = [c.channel.name for c in catalog.list_channels()] if channels is None else channels
        since = None if rules.keep is None else to_microseconds(catalog.read_time() - rules.keep)
        return janitor.maintain_channels(
            names, self.compactor, history=rules.history, points=rules.points, keep_since=since
        )


def _log_result(done: MaintenanceResult) -> None:
    for problem in done.problems:
        log.warning("upkeep: %s", problem)
    if done != MaintenanceResult(problems=done.problems):
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
