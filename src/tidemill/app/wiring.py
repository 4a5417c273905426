"""The composition root: builds catalog, block store, engine and services from a project's settings."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tidemill.algebra import program
from tidemill.app import registry
from tidemill.app.deliveries import build_deliveries, build_postbox
from tidemill.app.project import Project, build_source_resolver, load_project, locate_program
from tidemill.app.settings import (
    STATE_DIRECTORY,
    MailSettings,
    MaintenanceSettings,
    Settings,
    StorageSettings,
    WebhookSettings,
    find_project,
    load_settings,
    resolve_sqlite_url,
    resolve_storage_url,
)
from tidemill.app.sources import SourceFactory
from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.catalog.access import AccountCatalog
from tidemill.catalog.dataset_catalog import SqlDatasetCatalog
from tidemill.catalog.pagination import list_newest_events
from tidemill.errors import BadInput, ConfigError, Conflict, NotFound, TidemillError, WorkflowError
from tidemill.intake import insert_batch, is_table, load_file, load_table
from tidemill.model.analysis import NO_KNOWLEDGE, SchemaKnowledge
from tidemill.model.block import Block, BlockKind, ChannelPosition, parse_block_kind
from tidemill.model.change import Updates
from tidemill.model.flow import BoundFlow
from tidemill.model.registration import RegistrationChange, diff_registration
from tidemill.model.renamed import raise_missing_attribute
from tidemill.model.run import Run, RunKind
from tidemill.model.store import GracePeriods, StoreMarker
from tidemill.model.timestamps import format_version, parse_instant, to_microseconds
from tidemill.model.units import parse_duration, parse_size
from tidemill.model.view import Snapshot
from tidemill.model.workflow import WorkflowSpec, find_dangling_triggers
from tidemill.planner.explanation import TableExplanation
from tidemill.planner.refresh_mode import RefreshChoice
from tidemill.planner.validation import find_target_problems
from tidemill.planner.workflow_graph import build_graph
from tidemill.ports.engine import Progress
from tidemill.ports.records import Event, Server
from tidemill.ports.storage import BlockStore
from tidemill.publish import MailReceiver, Notifier, WebhookReceiver, build_receivers
from tidemill.retention.compaction import CompactionLimits, estimate_merge_seconds
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.freshness.controller import FreshnessController
from tidemill.runtime.freshness.infeasible_targets import explain_infeasible_targets
from tidemill.runtime.freshness.staleness import StalenessHistory
from tidemill.runtime.freshness.visibility import EVENTS, read_history
from tidemill.runtime.inspect.block_trace import BlockTrace, trace_block
from tidemill.runtime.inspect.change_feed import ChangeFeed
from tidemill.runtime.inspect.explain import explain_table
from tidemill.runtime.inspect.lineage import EventLineage, trace_lineage
from tidemill.runtime.inspect.status import read_status
from tidemill.runtime.maintenance.compaction import explain_compaction
from tidemill.runtime.maintenance.service import MaintenanceRules, MaintenanceService
from tidemill.runtime.maintenance.store_ownership import adopt_store, advance_marker, check_store
from tidemill.runtime.maintenance.vacuum import CollectionResult, MaintenanceResult, ScanResult, VacuumService
from tidemill.runtime.oneshot.eviction import DatasetEvictor
from tidemill.runtime.oneshot.service import OneShotService
from tidemill.runtime.oneshot.storage_report import StorageBudget, StorageBudgets
from tidemill.runtime.runs.analysis import (
    find_learned_schemas,
    read_knowledge,
    record_knowledge,
    record_learned_schemas,
)
from tidemill.runtime.runs.dispatch import DispatchConfig
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.insert import Inserter, InsertResult
from tidemill.runtime.runs.insert_batcher import InsertBatcher
from tidemill.runtime.runs.server import PeriodicTask, ServerIntervals, ServerLoop
from tidemill.runtime.runs.sources import SourceRunner
from tidemill.runtime.runs.views import ChannelViews
from tidemill.spark.engine import SparkEngine
from tidemill.spark.session import ship_module, start_session
from tidemill.spark.store_probe import start_on_store
from tidemill.storage import LocalDatasetCopier, open_store

log = logging.getLogger("tidemill.server")

FILE_SAMPLE_SIZE = 1000
"""The number of referenced files that `doctor` looks up in the store, spread evenly over all."""


_RENAMED = {"doubts": "infeasible_targets", "tap": "change_feed", "tidy": "run_maintenance"}


class Tidemill:
    """An open project. The command line uses only this class.

    with Tidemill.open("news") as mill:
        mill.apply()
        mill.insert("articles", "monday.csv")
        mill.run("digests")
        mill.read("digests").show()
    """

    def __init__(self, directory: Path, settings: Settings, project: Project | None = None) -> None:
        self.directory = directory
        self.settings = settings
        self._declared = project  # as declared in the files
        self._project: Project | None = None  # resolved with the knowledge of its queries
        self._knowledge = NO_KNOWLEDGE
        self.catalog, self.store = _open_catalog_and_store(directory, settings)
        try:
            check_store(self.catalog, self.store)
        except BaseException:
            self.catalog.close()
            raise
        session = partial(start_session, settings.spark.master, settings.spark.settings)
        self.engine = SparkEngine(partial(start_on_store, session, self.store), self.store.locate_file)
        self.executor = Executor(
            self.catalog,
            self.store,
            self.engine,
            _build_owner_name(),
            lease=settings.runs.lease,
            busy_timeout=settings.runs.reservation_timeout,
        )
        self.maintenance = MaintenanceService(
            self.executor, self._list_updates, _build_maintenance_rules(settings.maintenance)
        )
        self.oneshot_service = self._build_oneshot_service()
        """Submits one-shot workflows, runs their actions and manages their datasets."""

    @property
    def insert_batcher(self) -> InsertBatcher:
        """Batches small inserts of many callers."""
        return InsertBatcher(Inserter(self.executor, load_file), insert_batch)

    def _build_oneshot_service(self) -> OneShotService:
        return OneShotService(
            self.executor,
            SqlDatasetCatalog(self.catalog),
            build_source_resolver(self.directory, ship_module),
            os.environ,
            partial(locate_program, self.directory),
            LocalDatasetCopier(self.store.locate_file, self.directory),
            _build_budgets(self.settings.storage),
        )

    @classmethod
    def open(cls, directory: str | Path = ".") -> Tidemill:
        """Open the project at, or above, a directory."""
        project_directory = find_project(Path(directory))
        return cls(project_directory, load_settings(project_directory))

    @staticmethod
    def adopt_store(directory: str | Path = ".") -> StoreMarker | None:
        """Assign the store of the project at, or above, a directory to its catalog, even if it belonged to another.

        Returns the store's previous marker, if any. Nothing is deleted.
        """
        project_directory = find_project(Path(directory))
        catalog, store = _open_catalog_and_store(project_directory, load_settings(project_directory))
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # after an interruption, wait only for the current step
            self.maintenance.stopping.set()
        self.close()

    @property
    def project(self) -> Project:
        """The declarations of the project's workflow files, imported once, resolved with the last known schemas."""
        if self._project is None:
            self._resolve_project(read_knowledge(self.catalog))
        assert self._project is not None
        for module in self._project.modules:
            ship_module(module)
        return self._project

    def _resolve_project(self, knowledge: SchemaKnowledge) -> None:
        if self._declared is None:
            self._declared = load_project(self.directory, self.settings.workflows)
        self._project = self._declared.apply_knowledge(knowledge)
        self._knowledge = knowledge

    def _analyse_queries(self) -> None:
        """Analyse new queries with Spark and store the results; raises `WorkflowError` if Spark rejects one."""
        knowledge = read_knowledge(self.catalog, self.engine)
        self._resolve_project(knowledge)
        record_knowledge(self.catalog, knowledge)

    def register(self, data: Mapping[str, Any]) -> tuple[RegistrationChange, ...]:
        """Register a workflow given as a document; returns the changes."""
        document = registry.parse_definition(data)
        knowledge = read_knowledge(self.catalog, self.engine)
        workflow = registry.build_workflow(document, knowledge)
        if any(w.name == workflow.name for w in self.project.workflows):
            raise Conflict(
                f"workflow {workflow.name!r} is declared by a workflow file of this server; change that file"
            )
        _check_targets(workflow)
        self._check_triggers(workflow)
        record_knowledge(self.catalog, knowledge)
        steps = self._compute_difference(workflow)
        self.catalog.apply_workflow(workflow, document.model_dump(mode="json"))
        return steps

    def remove(self, workflow: str) -> None:
        """Deactivate a workflow; its data stay."""
        if any(w.name == workflow for w in self.project.workflows):
            raise Conflict(f"workflow {workflow!r} is declared by a workflow file; remove it there, then apply")
        self.catalog.remove_workflow(workflow)

    def plan(self) -> tuple[RegistrationChange, ...]:
        """The changes that `apply` would make.

        Raises `WorkflowError` for queries that Spark rejects, freshness targets that contradict each other, and
        triggers that wait for undeclared channels or flows; and `Conflict`, as `apply` does, for changes that would
        make existing data unreadable.
        """
        self._analyse_queries()
        for workflow in self.project.workflows:
            _check_targets(workflow)
            self._check_triggers(workflow)
        refusals = [reason for workflow in self.project.workflows for reason in self.catalog.list_refusals(workflow)]
        if refusals:
            raise Conflict("\n".join(refusals))
        return tuple(step for workflow in self.project.workflows for step in self._compute_difference(workflow))

    def _check_triggers(self, workflow: WorkflowSpec) -> None:
        """Reject triggers that no data and no run can fire."""
        declared = [workflow, *self.project.workflows]
        channels = {c.name for w in declared for c in w.channels} | {
            c.channel.name for c in self.catalog.list_channels()
        }
        flows = {b.name for w in declared for b in w.bindings} | {b.name for b in self.catalog.list_bindings()}
        problems = list(find_dangling_triggers(workflow, channels, flows))
        if problems:
            raise WorkflowError(problems)

    def infeasible_targets(self) -> tuple[str, ...]:
        """Freshness targets that cannot be met, judged by past runs, with reasons."""
        return tuple(
            explanation
            for workflow in self.project.workflows
            for explanation in explain_infeasible_targets(self.catalog, workflow)
        )

    def apply(self) -> tuple[RegistrationChange, ...]:
        """Register the declarations of the workflow files; returns the changes."""
        steps = self.plan()
        for workflow in self.project.workflows:
            self.catalog.apply_workflow(workflow)
        return steps

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
            inserter = Inserter(self.executor, load_file)
            return inserter.insert_file(channel, Path(data), format=format, kind=block_kind, key=key, progress=progress)
        if is_table(data):
            inserter = Inserter(self.executor, partial(load_table, data))
            return inserter.insert_file(channel, Path(), format="parquet", kind=block_kind, key=key, progress=progress)
        return Inserter(self.executor, load_file).insert_frame(channel, data, kind=block_kind, key=key)

    def run(
        self,
        name: str,
        progress: Progress | None = None,
        *,
        variant: str | None = None,
        on_choice: Callable[[Mapping[str, RefreshChoice]], None] | None = None,
    ) -> tuple[Run, list[Block]]:
        """Run a bound flow once, to its end; its declared tables by the cheapest variant, or by `variant`.

        With the variant "batch" programmed tasks, too, recompute everything: they read all input as new, and their
        output replaces the existing content.
        `on_choice` is called before the run with the chosen variant and the reason for each declared table.
        """
        binding = self._get_applied_binding(name)
        if variant == program.RefreshMode.BATCH:
            binding = self._reset_programmed_tasks(binding)
        elif variant is not None and all(t.refresh is None for t in binding.tasks):
            raise ConfigError(f"flow {name!r} has no declared table, so there is no variant {variant!r} to choose")
        controller = self._build_controller(binding)
        result = controller.run_flow(binding, progress, variant=variant, on_choice=on_choice or (lambda _: None))
        self._finish_run(result[1])
        return result

    def _finish_run(self, new_blocks: Iterable[Block]) -> None:
        """Apply schemas that the run's blocks have shown, so that tables can be incremental, and start maintenance."""
        blocks = list(new_blocks)
        self._apply_learned_schemas(blocks)
        self.maintenance.begin_maintenance(blocks)

    def _apply_learned_schemas(self, blocks: Sequence[Block]) -> None:
        """Resolve and apply the workflows again if the run has shown columns that a declared table needs."""
        for workflow in self.project.workflows:
            schemas = find_learned_schemas(self._knowledge, workflow, blocks)
            if schemas and not self._compute_difference(workflow):  # unapplied changes of the user are not applied here
                record_learned_schemas(self.catalog, schemas)
                try:
                    self.apply()
                except TidemillError as error:  # the run is committed; the table stays in batch until it is applied
                    log.warning("the schemas found by run %s were not applied: %s", blocks[0].run, error)
                return

    def _reset_programmed_tasks(self, binding: BoundFlow) -> BoundFlow:
        """The flow with its programmed tasks as if they had never run."""
        writers = Counter(w.port for b in self._list_declared_bindings() for t in b.tasks for w in t.writes)
        for write in (w for t in binding.tasks if t.refresh is None for w in t.writes):
            if writers[write.port] > 1:
                raise ConfigError(
                    f"flow {binding.name!r} cannot be computed from scratch: other tasks also write {write.port!r}, "
                    "and their rows would be lost; let each task write a separate channel"
                )
        return replace(binding, tasks=tuple(t if t.refresh is not None else t.to_first_run() for t in binding.tasks))

    def _list_declared_bindings(self) -> Iterator[BoundFlow]:
        return (b for w in (*self.project.workflows, *self._build_registered_workflows()) for b in w.bindings)

    def execute(self, run: Run, limit: CatchUpLimit | None = None) -> None:
        """Attempt a requested run, if its flow is declared here as it is registered.

        `limit` limits the data that it loads, unless freshness targets decide how far it reads.
        """
        if run.kind is RunKind.ACTION:
            self._execute_action(run)
            return
        try:
            binding = self._get_applied_binding(run.subject)
        except (NotFound, ConfigError) as error:
            log.warning("run %d of %s is left to other servers: %s", run.id, run.subject, error)
            return
        variant = program.RefreshMode.BATCH if run.backfill else None
        try:
            new_blocks = self._build_controller(binding).execute_run(run, binding, limit, variant=variant)
        except TidemillError as error:
            log.error("run %d of %s: %s", run.id, run.subject, error)
            return
        if new_blocks is not None:
            log.info(
                "run %d of %s: %s", run.id, run.subject, ", ".join(f"{b.rows} rows to {b.channel}" for b in new_blocks)
            )
            self._finish_run(new_blocks)

    def _execute_action(self, run: Run) -> None:
        try:
            if self.oneshot_service.execute_run(run):
                log.info("run %d of %s: finished", run.id, run.subject)
        except TidemillError as error:
            log.error("run %d of %s: %s", run.id, run.subject, error)

    def _build_controller(self, binding: BoundFlow) -> FreshnessController:
        """The controller that plans and executes the runs of a flow."""
        declared = chain(self.project.workflows, self._build_registered_workflows())
        workflow = next(w for w in declared if any(b.name == binding.name for b in w.bindings))
        planner = self.settings.planner
        return FreshnessController(
            self.executor,
            self.project.list_updates(),
            workflow,
            planner.asynchronous,
            planner.incremental,
            planner.strict,
        )

    @property
    def dispatch_config(self) -> DispatchConfig:
        """The dispatch settings of this project's servers, which users may override at run time."""
        settings = self.settings.server
        return DispatchConfig(**{field.name: getattr(settings, field.name) for field in fields(DispatchConfig)})

    def loop(self, role: str, tracks: int | None = None) -> ServerLoop:
        """The main loop of a server of this project."""
        settings = self.settings.server
        self.maintenance = replace(self.maintenance, stopping=threading.Event())
        server = Server(self.executor.owner, role, tracks or settings.tracks)
        dispatch = replace(self.dispatch_config, tracks=server.tracks)
        notifier = Notifier(
            self.catalog,
            build_receivers(_build_receiver(name, receiver) for name, receiver in self.settings.notify.items()),
        )
        evictor = self.oneshot_service.build_evictor()
        tasks = [
            PeriodicTask("sending notices", settings.poll_interval, notifier),
            PeriodicTask("maintenance", settings.maintenance_interval, self._maintain_all),
            PeriodicTask("evicting datasets", settings.maintenance_interval, partial(self._evict_datasets, evictor)),
            PeriodicTask("copying datasets", settings.maintenance_interval, self.oneshot_service.place_copies),
        ]
        deliveries = build_deliveries(self.settings.deliver, self.catalog, self.store.open_file, self.insert_batcher)
        tasks += [
            PeriodicTask(f"delivering to {delivery.name}", settings.poll_interval, delivery) for delivery in deliveries
        ]
        intervals = ServerIntervals(tick=settings.poll_interval, leader_lease=settings.leader_timeout)
        return ServerLoop(
            self.catalog, server, self.execute, tasks, intervals, dispatch, self.maintenance.stopping, self.executor
        )

    def sources(self, wake: Callable[[], None]) -> SourceRunner:
        """A context manager that runs the project's data sources; `wake` is called when data arrive."""
        stopping = threading.Event()
        factory = SourceFactory(self.insert_batcher, self.directory, self.settings.push, stopping, wake)
        runner = SourceRunner(self.catalog, self.executor.owner, self.settings.server.leader_timeout, stopping)
        return runner.start_sources(factory.build_sources(self.settings.sources))

    def _maintain_all(self) -> None:
        self.maintenance.run_maintenance()
        AccountCatalog(self.catalog).expire_audit(parse_duration(self.settings.maintenance.audit_retention))
        if self.settings.push.producer_retention is not None:
            self.catalog.expire_producers(parse_duration(self.settings.push.producer_retention))
        self.oneshot_service.dataset_catalog.expire_submissions(
            parse_duration(self.settings.maintenance.history_retention)
        )

    def _evict_datasets(self, evictor: DatasetEvictor) -> None:
        """Evict datasets that exceed their budgets."""
        report = evictor.enforce_budgets()
        for problem in () if report is None else report.problems:
            log.warning("datasets exceed their budget: %s", problem)
        if report is not None and report.evictions:
            log.info("evicted %d datasets with %d bytes", len(report.evictions), report.freed_bytes)

    def explain(self, table: str) -> TableExplanation:
        """How a table is refreshed, its variants, and the variant that a run would choose now, with the reason."""
        declared = (*self.project.workflows, *self._build_registered_workflows())
        return explain_table(self.catalog, declared, self.project.list_updates(), table)

    def history(self) -> StalenessHistory:
        """The recently visible blocks, from which the staleness of tables is computed."""
        return read_history(self.catalog, read_status(self.catalog), list_newest_events(self.catalog, EVENTS))

    def list_events(self, *, after: int | None = None, run: int | None = None, limit: int = 50) -> list[Event]:
        """Events after a number, or of a run, in order; by default the newest."""
        if after is None and run is None:
            return list_newest_events(self.catalog, limit)
        return self.catalog.list_events(after=after or 0, run=run, limit=limit)

    def kill(self, run: int) -> Run:
        return self.catalog.kill_run(run)

    def read(self, channel: str, as_of: str | None = None) -> Any:
        """The content of a channel as a DataFrame, now or as of a sequence number or a time."""
        return self.engine.read_frame(self._record_merge_cost(self.content(channel, as_of)))

    def rows(self, channel: str, as_of: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        return self.engine.read_rows(self._record_merge_cost(self.content(channel, as_of)), limit)

    def content(self, channel: str, as_of: str | None = None) -> Snapshot:
        """The blocks that make up the content of a channel; this does not count as a read."""
        position = self.catalog.read_channel(channel).head if as_of is None else self._resolve_position(channel, as_of)
        return ChannelViews(self.catalog, self._list_updates()).build_snapshot(channel, position.seq)

    def _record_merge_cost(self, content: Snapshot) -> Snapshot:
        """Record the merge cost of a read at the head; a new base would not speed up reads of the past."""
        if content.at == self.catalog.read_channel(content.channel).head.seq:
            self.catalog.record_merge_costs({content.channel: estimate_merge_seconds(content)})
        return content

    def lineage(self, channel: str, tag: str) -> EventLineage:
        """The ancestors and descendants of an event, by the tag of its wave."""

        def find_rows(name: str, condition: str) -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = self.read(name).where(condition).toArrow().to_pylist()
            return rows

        return trace_lineage(self.catalog, find_rows, channel, tag)

    def change_feed(self, channel: str, *, from_start: bool = False) -> ChangeFeed:
        """A change feed of a channel from now on, or from its beginning; it is not part of a workflow."""
        since = 0 if from_start else self.catalog.read_channel(channel).head.seq
        return ChangeFeed(self.catalog, self.engine, self._list_updates(), channel, since)

    def trace(self, block: int) -> BlockTrace:
        return trace_block(self.catalog, block)

    def compact(self, channel: str) -> Block | None:
        """Merge a channel's deltas into a base, so that reads become cheap; None if there is nothing to merge."""
        return self.maintenance.compactor.compact_major(channel)

    def compaction(self, channel: str) -> str | None:
        """Whether a compaction is due on a channel, with the reason; None if nothing was written to it yet."""
        return explain_compaction(self.catalog, self._list_updates(), channel)

    def collect(self, keep: str | None = None, grace: str | None = None) -> CollectionResult:
        """Garbage-collect blocks that are no longer needed; `keep` ('7 days') is the period that stays readable.

        Their files, and those of dead runs, are marked, and removed after the grace period of the settings, or after
        `grace` ('0s': at once).
        """
        return VacuumService(self.executor, grace=self._parse_grace(grace)).collect_garbage(
            _parse_since(keep, self.catalog.read_time())
        )

    def scan(self) -> ScanResult:
        """List the whole store, and mark unreferenced files of this catalog's runs for removal."""
        return VacuumService(self.executor).scan_store()

    def find_missing_files(self, sample: int = FILE_SAMPLE_SIZE) -> tuple[int, int, list[str]]:
        """The number of referenced files, the number of them looked up in the store, and the missing ones."""
        referenced = sorted(self.catalog.list_referenced_files())
        checked = referenced[:: max(1, -(-len(referenced) // sample))]
        missing = self.store.find_missing(checked)
        still_referenced = self.catalog.find_referenced_files(missing)  # others were removed meanwhile
        return len(referenced), len(checked), sorted(still_referenced)

    def _parse_grace(self, grace: str | None) -> GracePeriods:
        if grace is None:
            return self.maintenance.rules.grace
        try:
            return GracePeriods(parse_duration(grace), parse_duration(grace))
        except ValueError as error:
            raise BadInput(str(error)) from error

    def run_maintenance(self, channels: Iterable[str] | None = None) -> MaintenanceResult:
        """Do the maintenance that is due on these channels, or on all: compaction, garbage collection, expiry of runs.

        It costs a few queries per channel if nothing is due, and does not fail if a compaction does.
        """
        return self.maintenance.maintain_channels(channels)

    def _compute_difference(self, workflow: WorkflowSpec) -> tuple[RegistrationChange, ...]:
        channels = [c.channel for c in self.catalog.list_channels() if c.workflow == workflow.name]
        bindings = {
            b.name: (b.identity, ", ".join(t["name"] for t in b.spec["tasks"]))
            for b in self.catalog.list_bindings()
            if b.workflow == workflow.name
        }
        return diff_registration(workflow, channels, bindings)

    def _get_applied_binding(self, name: str) -> BoundFlow:
        """The declared flow of that name; raises if another version of it is registered."""
        binding = self._find_binding(name)
        registered = {b.name: b.identity for b in self.catalog.list_bindings()}
        if (
            binding is not None and registered.get(name) != binding.compute_identity()
        ):  # other processes may have found schemas since
            self._resolve_project(read_knowledge(self.catalog))
            binding = self._find_binding(name)
        if binding is None:
            known = ", ".join(sorted(b.name for w in self.project.workflows for b in w.bindings))
            raise NotFound(f"no flow {name!r} is declared; the flows are {known or 'none'}")
        if registered.get(name) != binding.compute_identity():
            raise ConfigError(f"flow {name!r} was changed since it was registered; review it with plan, then apply")
        return binding

    def _find_binding(self, name: str) -> BoundFlow | None:
        from_documents = (b for w in self._build_registered_workflows() for b in w.bindings if b.name == name)
        return self.project.find_binding(name) or next(from_documents, None)

    def _build_registered_workflows(self) -> Iterator[WorkflowSpec]:
        """The workflows that documents declare."""
        documents = [w.document for w in self.catalog.list_workflows() if w.document is not None]
        knowledge = read_knowledge(self.catalog) if documents else NO_KNOWLEDGE
        for document in documents:
            yield registry.build_workflow(registry.load_definition(document), knowledge)

    def _resolve_position(self, channel: str, as_of: str) -> ChannelPosition:
        """The position of a channel at a sequence number or time; a future one is an error."""
        head, now = self.catalog.read_channel(channel).head.seq, self.catalog.read_time()
        if as_of.isdecimal():
            if int(as_of) > head:
                raise BadInput(f"channel {channel} has no block {as_of} yet: its head is at {head}; read up to there")
            return self.catalog.read_position(channel, seq=int(as_of))
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
        return self.catalog.read_position(channel, version=version)

    def _list_updates(self) -> dict[str, Updates]:
        """The declared merge kinds, if any channel needs the user's functions; else empty: the catalog has them."""
        has_custom = any(c.channel.updates.name == "custom" for c in self.catalog.list_channels())
        return self.project.list_updates() if has_custom else {}


def _build_maintenance_rules(maintenance: MaintenanceSettings) -> MaintenanceRules:
    keep = None if maintenance.retention is None else parse_duration(maintenance.retention)
    grace = GracePeriods(parse_duration(maintenance.grace_period), parse_duration(maintenance.orphan_retention))
    return MaintenanceRules(
        maintenance.automatic,
        maintenance.run_history,
        maintenance.snapshots,
        keep,
        grace,
        CompactionLimits(small_file=maintenance.small_file_bytes),
    )


def _open_catalog_and_store(directory: Path, settings: Settings) -> tuple[SqlCatalog, BlockStore]:
    """The catalog and the store of a project, without a check that they belong together."""
    _create_home(directory)
    catalog = open_catalog(resolve_sqlite_url(settings.catalog.url, directory))
    try:
        store = open_store(
            resolve_storage_url(settings.storage.url, directory),
            cache=directory / settings.storage.cache,
            staged=settings.storage.staged,
            options=settings.storage.options,
        )
    except BaseException:
        catalog.close()
        raise
    return catalog, store


def _build_budgets(storage: StorageSettings) -> StorageBudgets:
    def build_budget(size: str) -> StorageBudget:
        return StorageBudget(parse_size(size), storage.eviction_threshold)

    total = None if storage.budget is None else build_budget(storage.budget)
    return StorageBudgets(total, {name: build_budget(size) for name, size in storage.budgets.items()})


def _check_targets(workflow: WorkflowSpec) -> None:
    """Reject freshness targets that contradict each other."""
    if any(c.freshness_target for c in workflow.channels):
        problems = find_target_problems(build_graph(workflow))
        if problems:
            raise WorkflowError(
                [f"workflow {workflow.name!r}, {problem.subject}: {problem.reason}" for problem in problems]
            )


def _build_receiver(name: str, settings: WebhookSettings | MailSettings) -> WebhookReceiver | MailReceiver:
    kinds = frozenset(settings.events)
    if isinstance(settings, WebhookSettings):
        return WebhookReceiver(name, settings.url, settings.secret, kinds)
    return MailReceiver(name, build_postbox(settings), kinds)


def _parse_since(keep: str | None, now: float) -> int | None:
    """The clock's reading `keep` before now."""
    try:
        return None if keep is None else to_microseconds(now - parse_duration(keep))
    except ValueError as error:
        raise BadInput(str(error)) from error


def _create_home(project: Path) -> None:
    try:
        (project / STATE_DIRECTORY).mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{project / STATE_DIRECTORY} cannot be created: {error.strerror}; choose a writable directory"
        ) from error


_opened = count(1)


def _build_owner_name() -> str:
    """The name of this executor: host, process, and the number of the project opened in this process."""
    number = next(_opened)
    return f"{socket.gethostname()}:{os.getpid()}" + ("" if number == 1 else f":{number}")
