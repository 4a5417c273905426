"""The composition root: builds catalog, block store, engine and services from a project's settings."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tidemill.app import lazy_imports
from tidemill.app import settings as config
from tidemill.app.deferred_engine import DeferredEngine
from tidemill.app.engine_limits import build_limits
from tidemill.app.flows import ChoiceReporter, FlowRunner
from tidemill.app.project import Project, build_source_resolver, load_project, locate_program
from tidemill.app.registration import WorkflowRegistration
from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.errors import BadInput, ConfigError, TidemillError, translate_value_error
from tidemill.model.block import Block, BlockKind, ChannelPosition, parse_block_kind
from tidemill.model.quota import WorkflowQuota
from tidemill.model.redaction import Redactor
from tidemill.model.registration import RegistrationChange
from tidemill.model.renamed import raise_missing_attribute
from tidemill.model.run import Run
from tidemill.model.store import GracePeriods, StoreMarker
from tidemill.model.submission import Submission
from tidemill.model.timestamps import format_version, parse_instant, to_microseconds
from tidemill.model.units import parse_duration, parse_size
from tidemill.model.view import Snapshot
from tidemill.planner.explanation import TableExplanation
from tidemill.ports.engine import Engine, Progress
from tidemill.ports.records import Event
from tidemill.ports.storage import BlockStore
from tidemill.retention.compaction import CompactionLimits, estimate_merge_seconds
from tidemill.runtime.freshness.advice import explain_infeasible_targets
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.freshness.staleness import StalenessHistory
from tidemill.runtime.freshness.visibility import EVENTS, read_history
from tidemill.runtime.inspect.block_trace import BlockTrace, trace_block
from tidemill.runtime.inspect.change_feed import ChangeFeed
from tidemill.runtime.inspect.explain import explain_table
from tidemill.runtime.inspect.lineage import EventLineage, trace_lineage
from tidemill.runtime.inspect.status import read_status
from tidemill.runtime.maintenance.compaction import Compactor, explain_compaction
from tidemill.runtime.maintenance.service import MaintenanceRules, MaintenanceService
from tidemill.runtime.maintenance.store_ownership import adopt_store, advance_marker, check_store
from tidemill.runtime.maintenance.vacuum import BlockBudget, CollectionResult, MaintenanceResult, VacuumService
from tidemill.runtime.oneshot.storage_report import StorageBudget, StorageBudgets
from tidemill.runtime.runs.dispatch import DispatchConfig
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.insert import Inserter, InsertResult
from tidemill.runtime.runs.insert_batcher import InsertBatcher
from tidemill.runtime.runs.quotas import QuotaGuard
from tidemill.runtime.runs.views import ChannelViews
from tidemill.storage import LocalDatasetCopier, open_store

if TYPE_CHECKING:
    from tidemill.runtime.oneshot.service import OneShotService

log = logging.getLogger("tidemill.server")

_RENAMED = {"doubts": "infeasible_targets", "tap": "change_feed", "tidy": "run_maintenance"}


class Tidemill:
    """An open project: what users of the package call, and the services that commands and servers call.

    with Tidemill.open("news") as mill:
        mill.apply()
        mill.insert("articles", "monday.csv")
        mill.run("digests")
        mill.read("digests").show()
    """

    def __init__(
        self,
        directory: Path,
        settings: config.Settings,
        project: Project | None = None,
        *,
        owner: str | None = None,
        engine: Engine | None = None,
    ) -> None:
        """Open a project. `project` replaces its workflow files, `engine` Spark, and `owner` the executor's name."""
        self.directory = directory
        self.settings = settings
        self.redactor = Redactor.from_values(os.environ, settings.model_dump())
        self.catalog, self.store = _open_catalog_and_store(directory, settings)
        try:
            check_store(self.catalog, self.store)
        except BaseException:
            self.catalog.close()
            raise
        self.engine = engine or cast(Engine, DeferredEngine(self._build_spark_engine))
        self.workflows = WorkflowRegistration(
            self.catalog,
            self.engine,
            lambda: project or load_project(directory, settings.workflows),
            config.list_channel_settings(settings),
        )
        self.quotas = QuotaGuard(self.catalog.files, _build_quotas(settings.quotas))
        self.executor = Executor(
            self.catalog,
            self.store,
            self.engine,
            owner or _build_owner_name(),
            lease=settings.runs.lease,
            busy_timeout=settings.runs.reservation_timeout,
            redactor=self.redactor,
            check_storage=self.quotas.check_storage,
        )
        self.maintenance = MaintenanceService(
            self.executor,
            self.build_compactor,
            _build_maintenance_rules(settings.maintenance, _list_block_budgets(settings)),
        )
        self.flows = FlowRunner(
            self.executor,
            self.workflows,
            settings.planner,
            lambda run: self.oneshot_service.execute_run(run),
            lambda blocks: self.maintenance.begin_maintenance(blocks),
        )

    @property
    def spark(self) -> Any:
        """The Spark session, started on first use; a server has none."""
        if not isinstance(self.engine, DeferredEngine):
            raise ConfigError("a server has no Spark session: its worker processes do")
        return self.engine.spark

    def _build_spark_engine(self) -> Engine:
        session = partial(lazy_imports.start_session, self.settings.spark.master, self.settings.spark.settings)
        start = partial(lazy_imports.start_on_store, session, self.store)
        return lazy_imports.SparkEngine(start, self.store.locate_file, build_limits(self.settings.engine))

    def build_compactor(self) -> Compactor:
        """The compactor of this project, with the merge functions that its workflows declare."""
        return Compactor(self.executor, self.workflows.list_custom_updates(), self.maintenance.rules.limits)

    @property
    def insert_batcher(self) -> InsertBatcher:
        """Batches small inserts of many callers."""
        return InsertBatcher(Inserter(self.executor, lazy_imports.load_file), lazy_imports.insert_batch)

    @cached_property
    def oneshot_service(self) -> OneShotService:
        """Submits one-shot workflows, runs their actions and manages their datasets."""
        return lazy_imports.OneShotService(
            self.executor,
            build_source_resolver(self.directory, lambda module: lazy_imports.ship_module(module)),
            os.environ,
            partial(locate_program, self.directory),
            LocalDatasetCopier(self.store.locate_file, self.catalog.datasets.list_copies, self.directory).place_copy,
            _build_budgets(self.settings.storage),
        )

    @classmethod
    def open(cls, directory: str | Path = ".") -> Tidemill:
        """Open the project at, or above, a directory."""
        project_directory = config.find_project(Path(directory))
        return cls(project_directory, config.load_settings(project_directory))

    @staticmethod
    def adopt_store(directory: str | Path = ".") -> StoreMarker | None:
        """Assign the store of the project at, or above, a directory to its catalog, even if it belonged to another.

        Returns the store's previous marker, if any. Nothing is deleted.
        """
        project_directory = config.find_project(Path(directory))
        catalog, store = _open_catalog_and_store(project_directory, config.load_settings(project_directory))
        try:
            return adopt_store(catalog, store)
        finally:
            catalog.close()

    def close(self) -> None:
        """Wait for maintenance that runs have started, and release all resources."""
        self.maintenance.finish()
        self.engine.stop()
        try:
            advance_marker(self.catalog, self.store)
        except TidemillError as error:
            log.warning("the marker of the block store was not updated: %s", error)
        self.catalog.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return raise_missing_attribute(self, name, _RENAMED)

    def __enter__(self) -> Tidemill:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:  # after an interruption, wait only for the current step
            self.maintenance.stopping.set()
        self.close()

    @property
    def project(self) -> Project:
        """The declarations of the project's workflow files."""
        return self.workflows.project

    def plan(self) -> tuple[RegistrationChange, ...]:
        """The changes that `apply` would make; raises for declarations that it would reject."""
        return self.workflows.plan()

    def infeasible_targets(self) -> tuple[str, ...]:
        """Freshness targets that cannot be met, judged by past runs, with reasons."""
        return tuple(
            explanation
            for workflow in self.project.workflows
            for explanation in explain_infeasible_targets(self.catalog.runs, workflow)
        )

    def apply(self) -> tuple[RegistrationChange, ...]:
        """Register the declarations of the workflow files; returns the changes."""
        return self.workflows.apply()

    def register(self, document: Mapping[str, Any]) -> tuple[RegistrationChange, ...]:
        """Register a workflow given as a document; returns the changes."""
        return self.workflows.register(document)

    def remove(self, workflow: str) -> None:
        """Deactivate a workflow; its data stay."""
        self.workflows.remove(workflow)

    def submit_workflow(self, text: str, user: str) -> Submission:
        """Submit a one-shot workflow."""
        return self.oneshot_service.submit_workflow(text, user)

    def execute_run(self, run: Run, limit: CatchUpLimit | None = None) -> None:
        """Make one attempt at a requested run, within a catch-up limit."""
        self.flows.execute(run, limit)

    def abandon_runs(self) -> None:
        """Return all running runs to the queue, so that another server can retry them at once."""
        self.executor.abandon_runs()

    def insert(
        self,
        channel: str,
        data: Any,
        *,
        format: str | None = None,
        kind: BlockKind | str = BlockKind.DELTA,
        key: str | None = None,
        progress: Progress | None = None,
    ) -> InsertResult:
        """Insert data into an input channel: all of it, or nothing.

        A file by its path, a DataFrame of Spark or pandas, an Arrow table, or a list of rows. `kind` is "delta", a
        change to the content, or "base", the full content. `key` is an idempotency key: a second insert with it
        changes nothing and returns the block of the first.
        """
        block_kind = parse_block_kind(kind)
        if isinstance(data, str | Path):
            inserter = Inserter(self.executor, lazy_imports.load_file)
            return inserter.insert_file(channel, Path(data), format=format, kind=block_kind, key=key, progress=progress)
        if lazy_imports.is_table(data):
            inserter = Inserter(self.executor, partial(lazy_imports.load_table, data))
            return inserter.insert_file(channel, Path(), format="parquet", kind=block_kind, key=key, progress=progress)
        return Inserter(self.executor, lazy_imports.load_file).insert_frame(channel, data, kind=block_kind, key=key)

    def run(
        self,
        name: str,
        progress: Progress | None = None,
        *,
        variant: str | None = None,
        on_choice: ChoiceReporter | None = None,
    ) -> tuple[Run, list[Block]]:
        """Run a bound flow once, to its end; its declared tables by the cheapest variant, or by `variant`.

        With the variant "batch" programmed tasks, too, recompute everything: they read all input as new, and their
        output replaces the existing content.
        `on_choice` is called before the run with the chosen variant and the reason for each declared table.
        """
        return self.flows.run(name, progress, variant=variant, on_choice=on_choice)

    @property
    def dispatch_config(self) -> DispatchConfig:
        """The dispatch settings of this project's servers, which users may override at run time."""
        return DispatchConfig(**config.read_fields(DispatchConfig, self.settings.server))

    def explain(self, table: str) -> TableExplanation:
        """How a table is refreshed, its variants, and the variant that a run would choose now, with the reason."""
        declared = tuple(self.workflows.list_workflows())
        return explain_table(self.catalog, declared, self.project.list_updates(), table)

    def history(self) -> StalenessHistory:
        """The recently visible blocks, from which the staleness of tables is computed."""
        return read_history(self.catalog, read_status(self.catalog), self.catalog.events.list_newest(EVENTS))

    def list_events(self, *, after: int | None = None, run: int | None = None, limit: int = 50) -> list[Event]:
        """Events after a number, or of a run, in order; by default the newest."""
        if after is None and run is None:
            return self.catalog.events.list_newest(limit)
        return self.catalog.events.list(after=after or 0, run=run, limit=limit)

    def read(self, channel: str, as_of: str | None = None) -> Any:
        """The content of a channel as a DataFrame, now or as of a sequence number or a time."""
        return self.engine.read_frame(self._record_merge_cost(self.content(channel, as_of)))

    def rows(self, channel: str, as_of: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        return self.engine.read_rows(self._record_merge_cost(self.content(channel, as_of)), limit)

    def content(self, channel: str, as_of: str | None = None) -> Snapshot:
        """The blocks that make up the content of a channel; this does not count as a read."""
        position = self.catalog.channels.read(channel).head if as_of is None else self._resolve_position(channel, as_of)
        return ChannelViews(self.catalog, self.workflows.list_custom_updates()).build_snapshot(channel, position.seq)

    def _record_merge_cost(self, content: Snapshot) -> Snapshot:
        """Record the merge cost of a read at the head; a new base would not speed up reads of the past."""
        if content.at == self.catalog.channels.read(content.channel).head.seq:
            self.catalog.channels.record_merge_costs({content.channel: estimate_merge_seconds(content)})
        return content

    def trace(self, block: int, depth: int = 1) -> BlockTrace:
        """The sources of a block, and the blocks derived from it, over `depth` steps in each direction."""
        return trace_block(self.catalog, block, depth)

    def lineage(self, channel: str, tag: str) -> EventLineage:
        """The ancestors and descendants of an event, by the tag of its wave."""

        def find_rows(name: str, condition: str) -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = self.read(name).where(condition).toArrow().to_pylist()
            return rows

        return trace_lineage(self.catalog.channels, find_rows, channel, tag)

    def change_feed(self, channel: str, *, from_start: bool = False) -> ChangeFeed:
        """A change feed of a channel from now on, or from its beginning; it is not part of a workflow."""
        since = 0 if from_start else self.catalog.channels.read(channel).head.seq
        return ChangeFeed(self.catalog, self.engine, self.workflows.list_custom_updates(), channel, since)

    def compact(self, channel: str) -> Block | None:
        """Merge a channel's deltas into a base, so that reads become cheap; None if there is nothing to merge."""
        return self.build_compactor().compact_major(channel)

    def compaction(self, channel: str) -> str | None:
        """Whether a compaction is due on a channel, with the reason; None if nothing was written to it yet."""
        return explain_compaction(self.catalog, self.workflows.list_custom_updates(), channel)

    def collect(self, retain: str | None = None, grace: str | None = None) -> CollectionResult:
        """Garbage-collect blocks that are no longer needed; `retain` ('7 days') is the period that stays readable.

        Their files, and those of dead runs, are marked, and removed after the grace period of the settings, or after
        `grace` ('0s': at once).
        """
        periods, since = self.maintenance.rules.grace, None
        with translate_value_error(BadInput):
            if grace is not None:
                periods = GracePeriods(parse_duration(grace), parse_duration(grace))
            if retain is not None:
                since = to_microseconds(self.catalog.read_time() - parse_duration(retain))
        return VacuumService(self.executor, grace=periods).collect_garbage(since)

    def run_maintenance(self, channels: Iterable[str] | None = None) -> MaintenanceResult:
        """Do the maintenance that is due on these channels, or on all: compaction, garbage collection, expiry of runs.

        It costs a few queries per channel if nothing is due, and does not fail if a compaction does.
        """
        return self.maintenance.maintain_channels(channels)

    def _resolve_position(self, channel: str, as_of: str) -> ChannelPosition:
        """The position of a channel at a sequence number or time; a future one is an error."""
        head, now = self.catalog.channels.read(channel).head.seq, self.catalog.read_time()
        if as_of.isdecimal():
            if int(as_of) > head:
                raise BadInput(f"channel {channel} has no block {as_of} yet: its head is at {head}; read up to there")
            return self.catalog.channels.read_position(channel, seq=int(as_of))
        try:
            version = parse_instant(as_of)
        except ValueError as error:
            raise BadInput(f"{error}, or the sequence number of a block") from error
        if version > to_microseconds(now):
            raise BadInput(
                f"{as_of} is in the future: it is {format_version(to_microseconds(now))}, "
                f"and the head of channel {channel} is at "
                f"{head}; leave the time out to read the current content"
            )
        return self.catalog.channels.read_position(channel, version=version)


def _build_maintenance_rules(
    maintenance: config.MaintenanceSettings, budgets: tuple[BlockBudget, ...]
) -> MaintenanceRules:
    retention = None if maintenance.retention is None else parse_duration(maintenance.retention)
    grace = GracePeriods(parse_duration(maintenance.grace_period), parse_duration(maintenance.orphan_retention))
    return MaintenanceRules(
        maintenance.automatic,
        maintenance.run_history,
        maintenance.snapshots,
        retention,
        grace,
        CompactionLimits(small_file=maintenance.small_file_bytes),
        budgets,
    )


def _list_block_budgets(settings: config.Settings) -> tuple[BlockBudget, ...]:
    """The storage quotas of workflows, and the budget of all channels; space is freed from their threshold on."""
    share, total = settings.storage.eviction_threshold, settings.storage.channel_budget
    quotas = [BlockBudget(int(parse_size(q.storage) * share), name) for name, q in settings.quotas.items() if q.storage]
    return (*quotas, *(() if total is None else (BlockBudget(int(parse_size(total) * share)),)))


def _open_catalog_and_store(directory: Path, settings: config.Settings) -> tuple[SqlCatalog, BlockStore]:
    """The catalog and the store of a project, without a check that they belong together."""
    _create_home(directory)
    catalog = open_catalog(config.resolve_sqlite_url(settings.catalog.url, directory))
    try:
        store = open_store(
            config.resolve_storage_url(settings.storage.url, directory),
            cache=directory / settings.storage.cache,
            staged=settings.storage.staged,
            options=settings.storage.options,
        )
    except BaseException:
        catalog.close()
        raise
    return catalog, store


def _build_budgets(storage: config.StorageSettings) -> StorageBudgets:
    def build_budget(size: str) -> StorageBudget:
        return StorageBudget(parse_size(size), storage.eviction_threshold)

    total = None if storage.budget is None else build_budget(storage.budget)
    channels = None if storage.channel_budget is None else build_budget(storage.channel_budget)
    return StorageBudgets(total, {name: build_budget(size) for name, size in storage.budgets.items()}, channels)


def _build_quotas(quotas: Mapping[str, config.QuotaSettings]) -> dict[str, WorkflowQuota]:
    return {
        name: WorkflowQuota(quota.tracks, None if quota.storage is None else parse_size(quota.storage))
        for name, quota in quotas.items()
    }


def _create_home(project: Path) -> None:
    try:
        (project / config.STATE_DIRECTORY).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{project / config.STATE_DIRECTORY} cannot be created: {error.strerror}; choose a writable directory"
        ) from error


_opened = count(1)


def _build_owner_name() -> str:
    """The name of this executor: host, process, and the number of the project opened in this process."""
    number = next(_opened)
    return f"{socket.gethostname()}:{os.getpid()}" + ("" if number == 1 else f":{number}")
