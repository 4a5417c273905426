"""Background maintenance of all channels.

It is off where the settings say so, pauses while a setting override says so (`tidemill maintenance --pause`), and stops
when its process ends. A step in progress continues to its end; a compaction is a run, which can be killed like others.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidemill.model.block import Block
from tidemill.model.store import GracePeriods
from tidemill.model.timestamps import to_microseconds
from tidemill.ports.catalog import ServerQueries
from tidemill.retention.compaction import LIMITS, CompactionLimits, is_check_due
from tidemill.runtime.maintenance.compaction import MAJOR_COMPACTION_COST, Compactor
from tidemill.runtime.maintenance.store_ownership import advance_marker
from tidemill.runtime.maintenance.vacuum import BlockBudget, MaintenanceResult, VacuumService, always_continue
from tidemill.runtime.runs.execution import Executor

log = logging.getLogger("tidemill.server")

OVERRIDE = "maintenance"
PAUSED = "paused"


def is_paused(servers: ServerQueries) -> bool:
    return bool(servers.read_setting_overrides().get(OVERRIDE) == PAUSED)


@dataclass(frozen=True, slots=True)
class MaintenanceRules:
    """Retention rules, and whether maintenance runs automatically."""

    automatic: bool = True
    history: int = 100  # runs kept of each channel and flow
    points: int = 0  # number of the newest contents of a channel that stay readable
    retention: float | None = None  # seconds for which contents stay readable as well
    grace: GracePeriods = GracePeriods()
    limits: CompactionLimits = LIMITS
    budgets: tuple[BlockBudget, ...] = ()  # above which older contents are collected regardless of the rules


class BackgroundMaintenance:
    """Runs maintenance in one background thread, which exists only while channels are due.

    Channels that become due meanwhile are handled next, once each however often they became due.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: set[str] = set()
        self._thread: threading.Thread | None = None

    def schedule_channels(self, channels: Iterable[str], work: Callable[[set[str]], None]) -> None:
        """Schedule `work` on these channels; returns at once."""
        with self._lock:
            self._due.update(channels)
            if self._due and self._thread is None:
                name = "tidemill-maintenance"
                self._thread = threading.Thread(target=self._run_due, args=(work,), name=name, daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until no channel is due."""
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
                log.exception("maintenance")


@dataclass(frozen=True, slots=True)
class MaintenanceService:
    """Maintains all channels of one catalog; `stopping` is set when the process is about to end."""

    executor: Executor
    build_compactor: Callable[[], Compactor]
    rules: MaintenanceRules = MaintenanceRules()
    stopping: threading.Event = field(default_factory=threading.Event)
    background: BackgroundMaintenance = field(default_factory=BackgroundMaintenance)

    def maintain_channels(self, channels: Iterable[str] | None = None) -> MaintenanceResult:
        """Do the due maintenance on these channels, or on all, to its end, because a user requested it."""
        return self._maintain_channels(VacuumService(self.executor, always_continue, self.rules.grace), channels)

    def begin_maintenance(self, blocks: Iterable[Block]) -> None:
        """Start the maintenance that is due after a run in the background.

        The next run of the flow does not wait for it. A compaction may be the first work that needs Spark, which takes
        long to start.
        """
        self.schedule_channels(self.find_due_channels(blocks))

    def schedule_channels(self, channels: Iterable[str]) -> None:
        """Start the maintenance that is due on these channels in the background."""
        self.background.schedule_channels(channels, self._maintain_due)

    def finish(self) -> None:
        """Wait for background maintenance; once `stopping` is set, only for the current step."""
        self.background.wait()

    def find_due_channels(self, written: Iterable[Block]) -> set[str]:
        """Find channels where maintenance may be due: those that runs wrote and read, or with high merge costs."""
        if not self.rules.automatic:
            return set()
        catalog = self.executor.catalog
        checked = [b for b in written if is_check_due(b, self.rules.limits)]
        due = {b.channel for b in checked}
        runs = {b.run for b in checked if b.run is not None}
        due |= {r.channel for run in runs for r in catalog.runs.list_reads(run)}
        return due | {m.channel for m in catalog.channels.list_merge_costs(min_seconds=MAJOR_COMPACTION_COST.start)}

    def _maintain_due(self, due: set[str]) -> None:
        if due and self.can_continue():
            _log_result(self._maintain_channels(self._vacuum_service, sorted(due)))

    def run_maintenance(self) -> None:
        """Maintain all channels, and advance the store's marker to the catalog's clock."""
        if self.rules.automatic and self.can_continue():
            _log_result(self._maintain_channels(self._vacuum_service, None))
            self._vacuum_service.drop_copies()
        advance_marker(self.executor.catalog, self.executor.store)

    def can_continue(self) -> bool:
        return not self.stopping.is_set() and not is_paused(self.executor.catalog.servers)

    @property
    def _vacuum_service(self) -> VacuumService:
        return VacuumService(self.executor, self.can_continue, self.rules.grace)

    def _maintain_channels(self, vacuum: VacuumService, channels: Iterable[str] | None) -> MaintenanceResult:
        catalog, rules = self.executor.catalog, self.rules
        names = [c.channel.name for c in catalog.channels.list()] if channels is None else channels
        since = None if rules.retention is None else to_microseconds(catalog.read_time() - rules.retention)
        result = vacuum.maintain_channels(
            names, self.build_compactor(), history=rules.history, points=rules.points, retain_since=since
        )
        for budget in rules.budgets if channels is None else ():
            result = vacuum.collect_over_budget(result, budget, rules.points)
        return result


def _log_result(result: MaintenanceResult) -> None:
    for problem in result.problems:
        log.warning("maintenance: %s", problem)
    if result != MaintenanceResult(problems=result.problems):
        log.info(
            f"maintenance: {len(result.minor_compactions)} minor and {len(result.major_compactions)} major "
            f"compactions, {result.collected.blocks} blocks garbage-collected, {result.collected.marked} files marked "
            f"and {result.collected.files} removed, {result.expired.runs} runs expired"
        )
