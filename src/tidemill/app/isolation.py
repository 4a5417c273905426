"""A project that is open in a server: what executes users' code runs in its worker processes.

The server itself imports no workflow file, and has no Spark session. It dispatches runs, answers from the catalog, and
reads rows for others through a worker.
"""

from __future__ import annotations

import logging
import pickle
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, cast

from tidemill.app import settings as config
from tidemill.app.engine_limits import compute_driver_memory, read_memory
from tidemill.app.project import Project
from tidemill.app.wiring import Tidemill
from tidemill.app.worker import WORKER_MODULE, WorkerSetup
from tidemill.errors import TidemillError
from tidemill.model.block import Block
from tidemill.model.health import EngineHealth
from tidemill.model.registration import RegistrationChange
from tidemill.model.run import Run
from tidemill.model.submission import Submission
from tidemill.model.units import parse_size
from tidemill.planner.explanation import TableExplanation
from tidemill.ports.engine import Engine
from tidemill.retention import compaction as policy
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.inspect.lineage import EventLineage
from tidemill.runtime.maintenance.compaction import Compactor
from tidemill.workers.pool import OnChange, WorkerPool
from tidemill.workers.process import WorkerLimits, WorkerProcess, build_command

log = logging.getLogger("tidemill.server")

MAX_READS = 2
"""Reads at a time: while all workers execute runs, so many others are started for them."""

_MEMORY_SHARE = 0.8
"""The share of the memory that all workers together may use by default."""

_MIN_MEMORY = 4 << 30
"""The least memory of a worker by default, in bytes: Spark's Java process alone may use half of it."""

_MAX_DISK = 100 << 30
"""The greatest default for the temporary files of a worker in bytes, where half of the free space is more."""


class WorkerEngine:
    """The engine of a server: its workers. Nothing runs in the server itself."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool

    def start(self) -> None:
        self._pool.start()

    def report_health(self) -> EngineHealth:
        return self._pool.report_health()

    def cancel_jobs(self, tag: str) -> None:
        """Do nothing: each worker cancels the jobs of the runs that it executes."""

    def stop(self) -> None:
        self._pool.stop()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"a server does not execute {name!r} itself: call a worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCompactor(Compactor):
    """Decides in the server, and compacts in a worker: a merge function may be the user's."""

    pool: WorkerPool

    def run_compaction(self, compaction: policy.Compaction, reason: str) -> Block:
        block: int = self.pool.call("compact_if_due", compaction.view.channel)
        return self.executor.catalog.blocks.read(block)


class IsolatedTidemill(Tidemill):
    """An open project of a server."""

    def __init__(self, directory: Path, settings: config.Settings) -> None:
        size = settings.server.tracks
        self.pool = WorkerPool(self._start_worker, size, self._reclaim_runs)
        self._reads = BoundedSemaphore(MAX_READS)
        self._worker_limits = build_worker_limits(settings.workers, size)
        self._worker_settings = _share_memory(settings, size)
        engine = cast(Engine, WorkerEngine(self.pool))  # it refuses to execute anything
        super().__init__(directory, settings, Project(()), engine=engine)

    @classmethod
    def open_server(cls, directory: str | Path = ".", tracks: int | None = None) -> IsolatedTidemill:
        """Open the project at, or above, a directory for a server; `tracks` replaces the number in the settings."""
        project_directory = config.find_project(Path(directory))
        settings = config.load_settings(project_directory)
        if tracks is not None:
            settings = settings.model_copy(update={"server": settings.server.model_copy(update={"tracks": tracks})})
        return cls(project_directory, settings)

    def _call(self, operation: str, *arguments: Any) -> Any:
        """Execute an operation that is no run."""
        with self._reads:
            return self.pool.call(operation, *arguments)

    def build_compactor(self) -> Compactor:
        return WorkerCompactor(self.executor, {}, self.maintenance.rules.limits, pool=self.pool)

    def plan(self) -> tuple[RegistrationChange, ...]:
        changes: tuple[RegistrationChange, ...] = self._call("plan")
        return changes

    def apply(self) -> tuple[RegistrationChange, ...]:
        changes: tuple[RegistrationChange, ...] = self._call("apply")
        return changes

    def infeasible_targets(self) -> tuple[str, ...]:
        explanations: tuple[str, ...] = self._call("infeasible_targets")
        return explanations

    def register(self, document: Mapping[str, Any]) -> tuple[RegistrationChange, ...]:
        changes: tuple[RegistrationChange, ...] = self._call("register", document)
        return changes

    def remove(self, workflow: str) -> None:
        self._call("remove", workflow)

    def submit_workflow(self, text: str, user: str) -> Submission:
        return self.catalog.datasets.read_submission(self._call("submit_workflow", text, user))

    def explain(self, table: str) -> TableExplanation:
        explanation: TableExplanation = self._call("explain", table)
        return explanation

    def rows(self, channel: str, as_of: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._call("rows", channel, as_of, limit)
        return rows

    def lineage(self, channel: str, tag: str) -> EventLineage:
        lineage: EventLineage = self._call("lineage", channel, tag)
        return lineage

    def compact(self, channel: str) -> Block | None:
        block: int | None = self._call("compact", channel)
        return None if block is None else self.catalog.blocks.read(block)

    def execute_run(self, run: Run, limit: CatchUpLimit | None = None) -> None:
        """Make one attempt at a run in a worker. One whose worker ends has failed: see `_reclaim_runs`."""
        try:
            due: list[str] = self.pool.call("execute_run", run, limit)
        except TidemillError as error:
            log.error("run %d of %s: %s", run.id, run.subject, error)
        else:
            self.maintenance.schedule_channels(due)

    def abandon_runs(self) -> None:
        self.pool.abandon_calls(f"{self.executor.owner} was stopped")

    def _start_worker(self, number: int, on_change: OnChange) -> WorkerProcess:
        setup = WorkerSetup(self.directory, self._worker_settings, self._build_worker_owner(number))
        return WorkerProcess(number, build_command(WORKER_MODULE), pickle.dumps(setup), self._worker_limits, on_change)

    def _build_worker_owner(self, number: int) -> str:
        """The name under which a worker executes runs; its successor has the same."""
        return f"{self.executor.owner}/{number}"

    def _reclaim_runs(self, worker: WorkerProcess) -> None:
        """Record the failure of the run that a worker executed; where users' code was the reason it counts."""
        owner, reason = self._build_worker_owner(worker.number), worker.end_reason or ""
        try:
            self.catalog.runs.reclaim_owned(owner, error=reason, is_lost=not worker.is_fault)
        except TidemillError as error:  # its lease will expire
            log.error("the run of worker %d was not reclaimed yet: %s", worker.number, error)


def build_worker_limits(workers: config.WorkerSettings, count: int) -> WorkerLimits:
    """The limits of each of `count` workers: as set, else from the memory and the free space of the machine."""
    memory = max(_MIN_MEMORY, int(_MEMORY_SHARE * read_memory()) // count)
    disk = min(_MAX_DISK, shutil.disk_usage(tempfile.gettempdir()).free // 2)
    return WorkerLimits(
        memory if workers.memory is None else parse_size(workers.memory),
        workers.processes,
        disk if workers.disk is None else parse_size(workers.disk),
        workers.time_limit,
        workers.nice,
    )


def _share_memory(settings: config.Settings, count: int) -> config.Settings:
    """The settings of one of `count` workers, which share the memory for rows on the driver."""
    if settings.engine.driver_memory is not None:
        return settings
    share = f"{compute_driver_memory() // count} B"
    return settings.model_copy(update={"engine": settings.engine.model_copy(update={"driver_memory": share})})
