"""The only wiring: a project's settings become a catalog, a block store, an engine and what works with them."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from tidemill.algebra import program
from tidemill.app import registry
from tidemill.app.deliveries import build_deliveries, build_postbox
from tidemill.app.project import Project, build_source_resolver, load_project, locate_program
from tidemill.app.settings import (
    HOME,
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
from tidemill.model.analysis import NOTHING_KNOWN, SchemaKnowledge
from tidemill.model.block import Block, BlockKind, ChannelPosition, parse_block_kind
from tidemill.model.change import Updates
from tidemill.model.flow import BoundFlow
from tidemill.model.registration import RegistrationChange, diff_registration
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
from tidemill.ports.records import Server
from tidemill.ports.storage import BlockStore
from tidemill.publish import MailReceiver, Notifier, WebhookReceiver, build_receivers
from tidemill.retention.compaction import CompactionLimits, estimate_merge_seconds
from tidemill.runtime.freshness.catch_up import CatchUpLimit, attempt_run
from tidemill.runtime.freshness.controller import FreshnessController
from tidemill.runtime.freshness.infeasible_targets import explain_infeasible_targets
from tidemill.runtime.freshness.refresh_mode import choose_variants
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

SAMPLE = 1000
"""Named files that `doctor` looks for in the store, spread evenly over all."""


class Tidemill:
    """An open project. Everything the command line does, it does through this.

    with Tidemill.open("news") as mill:
        mill.apply()
        mill.insert("articles", "monday.csv")
        mill.run("digests")
        mill.read("digests").show()
    """

    def __init__(self, directory: Path, settings: Settings, project: Project | None = None) -> None:
        self.directory = directory
        self.settings = settings
        self._declared = project  # as the files say
        self._project: Project | None = None  # with all that is known of its queries
        self._knowledge = NOTHING_KNOWN
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
            busy=settings.runs.busy,
        )
        self.upkeep = MaintenanceService(self.executor, self._list_updates, _build_maintenance_rules(settings.upkeep))
        self.workshop = self._build_oneshot_service()
        """Submits one-shot workflows, runs their actions and keeps what they make."""

    @property
    def gatherer(self) -> InsertBatcher:
        """Inserts small files for many callers."""
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
        found = find_project(Path(directory))
        return cls(found, load_settings(found))

    @staticmethod
    def adopt_store(directory: str | Path = ".") -> StoreMarker | None:
        """Let the store of the project at, or above, a directory belong to its catalog, whatever it belonged to.

        Returns the marker that the store had, if any. Nothing is deleted.
        """
        found = find_project(Path(directory))
        catalog, store = _open_catalog_and_store(found, load_settings(found))
        try:
            return adopt_store(catalog, store)
        finally:
            catalog.close()

    def close(self) -> None:
        """Let upkeep that runs have begun come to its end, and give back all that is open."""
        self.upkeep.finish()
        self.engine.stop()
        try:
            advance_marker(self.catalog, self.store)
        except TidemillError as error:
            log.warning("the block store was not told how far its catalog has come: %s", error)
        self.catalog.close()

    def __enter__(self) -> Tidemill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # who was interrupted waits for the step that is under way, and no more
            self.upkeep.stopping.set()
        self.close()

    @property
    def project(self) -> Project:
        """The declarations of the project's workflow files, imported once, with what was known when last applied."""
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
        """Ask Spark about queries that nobody asked it about before; raises `WorkflowError` if it refuses one."""
        knowledge = read_knowledge(self.catalog, self.engine)
        self._resolve_project(knowledge)
        record_knowledge(self.catalog, knowledge)

    def register(self, data: Mapping[str, Any]) -> tuple[RegistrationChange, ...]:
        """Register a workflow that comes as a document; returns what changed."""
        document = registry.parse_definition(data)
        knowledge = read_knowledge(self.catalog, self.engine)
        workflow = registry.build_workflow(document, knowledge)
        if any(w.name == workflow.name for w in self.project.workflows):
            raise Conflict(f"workflow {workflow.name!r} is declared by a workflow file of this server; change that")
        _check_targets(workflow)
        self._check_triggers(workflow)
        record_knowledge(self.catalog, knowledge)
        steps = self._compute_difference(workflow)
        self.catalog.apply_workflow(workflow, document.model_dump(mode="json"))
        return steps

    def remove(self, workflow: str) -> None:
        """Take a workflow out of use; its data stay."""
        if any(w.name == workflow for w in self.project.workflows):
            raise Conflict(f"workflow {workflow!r} is declared by a workflow file; take it out there, then apply")
        self.catalog.remove_workflow(workflow)

    def plan(self) -> tuple[RegistrationChange, ...]:
        """What `apply` would change; raises `WorkflowError` for queries that Spark refuses, promises that exclude
        each other, and triggers that wait for what nobody declares.

        It raises `Conflict`, as `apply` does, for changes with which the data that are there could not be read.
        """
        self._analyse_queries()
        for workflow in self.project.workflows:
            _check_targets(workflow)
            self._check_triggers(workflow)
        refused = [reason for workflow in self.project.workflows for reason in self.catalog.list_refusals(workflow)]
        if refused:
            raise Conflict("\n".join(refused))
        return tuple(step for workflow in self.project.workflows for step in self._compute_difference(workflow))

    def _check_triggers(self, workflow: WorkflowSpec) -> None:
        """Refuse triggers that no data and no run would ever fire."""
        declared = [workflow, *self.project.workflows]
        channels = {c.name for w in declared for c in w.channels} | {
            c.channel.name for c in self.catalog.list_channels()
        }
        flows = {b.name for w in declared for b in w.bindings} | {b.name for b in self.catalog.list_bindings()}
        problems = list(find_dangling_triggers(workflow, channels, flows))
        if problems:
            raise WorkflowError(problems)

    def doubts(self) -> tuple[str, ...]:
        """Promises that history says cannot be kept, and why."""
        return tuple(
            d for workflow in self.project.workflows for d in explain_infeasible_targets(self.catalog, workflow)
        )

    def apply(self) -> tuple[RegistrationChange, ...]:
        """Register what the workflow files declare; returns what changed."""
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
        change to the content, or "base", the whole content. A second insert with the same `key` changes nothing and
        finds the first one's block.
        """
        chosen = parse_block_kind(kind)
        if isinstance(data, str | Path):
            inserter = Inserter(self.executor, load_file)
            return inserter.insert_file(channel, Path(data), format=format, kind=chosen, key=key, progress=progress)
        if is_table(data):
            inserter = Inserter(self.executor, partial(load_table, data))
            return inserter.insert_file(channel, Path(), format="parquet", kind=chosen, key=key, progress=progress)
        return Inserter(self.executor, load_file).insert_frame(channel, data, kind=chosen, key=key)

    def run(
        self,
        name: str,
        progress: Progress | None = None,
        *,
        variant: str | None = None,
        tell: Callable[[Mapping[str, RefreshChoice]], None] | None = None,
    ) -> tuple[Run, list[Block]]:
        """Run a bound flow once, to its end; its declared tables the cheapest way, or as `variant` says.

        With the variant "batch" programmed tasks, too, compute everything anew: they are fed all there is as new, and
        what they write replaces what was there.
        `tell` is told beforehand, for each declared table, the variant chosen and why.
        """
        updates = self.project.list_updates()
        applied = self._get_applied_binding(name)
        if variant is None and (keeper := self._find_controller(applied)) is not None:
            done = keeper.run_flow(applied, progress)
            self._finish_run(done[1])
            return done
        binding, choices = choose_variants(self.catalog, applied, updates, variant=variant)
        if variant == program.RefreshMode.BATCH:
            binding = self._reset_programmed_tasks(binding)
        elif variant is not None and not choices:
            raise ConfigError(f"flow {name!r} has no declared table, so there is no variant {variant!r} to choose")
        if tell is not None:
            tell(choices)
        done = self.executor.run_flow(binding, updates, progress)
        self._finish_run(done[1])
        return done

    def _finish_run(self, made: Iterable[Block]) -> None:
        """What follows a run: tables become incremental whose inputs it was the first to write, and upkeep begins."""
        blocks = list(made)
        self._apply_learned_schemas(blocks)
        self.upkeep.begin_maintenance(blocks)

    def _apply_learned_schemas(self, blocks: Sequence[Block]) -> None:
        """If a declared table reads a channel whose columns only this run has shown, work it out again."""
        for workflow in self.project.workflows:
            taught = find_learned_schemas(self._knowledge, workflow, blocks)
            if taught and not self._compute_difference(
                workflow
            ):  # what its user has changed since is not ours to apply
                record_learned_schemas(self.catalog, taught)
                try:
                    self.apply()
                except TidemillError as error:  # the run is committed; the table stays in batch until it is applied
                    log.warning("what run %s has shown was not applied: %s", blocks[0].run, error)
                return

    def _reset_programmed_tasks(self, binding: BoundFlow) -> BoundFlow:
        """The flow with its programmed tasks as if they had never run."""
        writers = Counter(w.port for b in self._list_declared_bindings() for t in b.tasks for w in t.writes)
        for write in (w for t in binding.tasks if t.refresh is None for w in t.writes):
            if writers[write.port] > 1:
                raise ConfigError(
                    f"flow {binding.name!r} cannot be computed from scratch: other tasks add to {write.port!r}, too, "
                    "and what they added would be gone; give each a channel of its own"
                )
        return replace(binding, tasks=tuple(t if t.refresh is not None else t.to_first_run() for t in binding.tasks))

    def _list_declared_bindings(self) -> Iterator[BoundFlow]:
        return (b for w in (*self.project.workflows, *self._build_registered_workflows()) for b in w.bindings)

    def execute(self, run: Run, portion: CatchUpLimit | None = None) -> None:
        """One attempt at a run that somebody asked for, if its flow is declared here as it is registered.

        It loads a portion of what waits at most, unless promises say how far it reads.
        """
        if run.kind is RunKind.ACTION:
            self._execute_action(run)
            return
        updates = self.project.list_updates()
        try:
            applied = self._get_applied_binding(run.subject)
        except (NotFound, ConfigError) as error:
            log.warning("run %d of %s is left to other servers: %s", run.id, run.subject, error)
            return
        try:
            if not run.backfill and (keeper := self._find_controller(applied)) is not None:
                made = keeper.attempt_run(run, applied)
            else:
                variant = program.RefreshMode.BATCH if run.backfill else None
                binding, _ = choose_variants(self.catalog, applied, updates, variant=variant)
                made = attempt_run(self.executor, run, binding, updates, portion)
        except TidemillError as error:
            log.error("run %d of %s: %s", run.id, run.subject, error)
            return
        if made is not None:
            log.info("run %d of %s: %s", run.id, run.subject, ", ".join(f"{b.rows} rows to {b.channel}" for b in made))
            self._finish_run(made)

    def _execute_action(self, run: Run) -> None:
        try:
            if self.workshop.attempt_run(run):
                log.info("run %d of %s: made", run.id, run.subject)
        except TidemillError as error:
            log.error("run %d of %s: %s", run.id, run.subject, error)

    def _find_controller(self, binding: BoundFlow) -> FreshnessController | None:
        """Who runs a flow of whose channels something is promised."""
        declared = (*self.project.workflows, *self._build_registered_workflows())
        workflow = next(w for w in declared if any(b.name == binding.name for b in w.bindings))
        promised = any(c.promise for c in workflow.channels if c.name in binding.written_channels)
        how = self.settings.planner
        keeper = FreshnessController(
            self.executor, self.project.list_updates(), workflow, how.asynchronous, how.incremental
        )
        return keeper if promised else None

    @property
    def way(self) -> DispatchConfig:
        """How servers of this project dispatch, unless people wish otherwise."""
        own = self.settings.server
        return DispatchConfig(**{field.name: getattr(own, field.name) for field in fields(DispatchConfig)})

    def loop(self, role: str, tracks: int | None = None) -> ServerLoop:
        """A server of this project."""
        chosen = self.settings.server
        self.upkeep = replace(self.upkeep, stopping=threading.Event())
        server = Server(self.executor.owner, role, tracks or chosen.tracks)
        way = replace(self.way, tracks=server.tracks)
        notifier = Notifier(
            self.catalog, build_receivers(_build_receiver(n, s) for n, s in self.settings.notify.items())
        )
        evictor = self.workshop.build_evictor()
        chores = [
            PeriodicTask("telling", chosen.tick, notifier),
            PeriodicTask("keeping house", chosen.chores, self._run_maintenance),
            PeriodicTask("keeping datasets", chosen.chores, partial(self._evict_datasets, evictor)),
            PeriodicTask("putting copies in place", chosen.chores, self.workshop.place_copies),
        ]
        out = build_deliveries(self.settings.deliver, self.catalog, self.store.open_file, self.gatherer)
        chores += [PeriodicTask(f"delivering to {delivery.name}", chosen.tick, delivery) for delivery in out]
        rhythm = ServerIntervals(tick=chosen.tick, lead=chosen.lead)
        return ServerLoop(self.catalog, server, self.execute, chores, rhythm, way, self.upkeep.stopping, self.executor)

    def sources(self, wake: Callable[[], None]) -> SourceRunner:
        """What brings in data by itself, while it is entered; `wake` is called when some came."""
        stopping = threading.Event()
        arrivals = SourceFactory(self.gatherer, self.directory, self.settings.push, stopping, wake)
        held = SourceRunner(self.catalog, self.executor.owner, self.settings.server.lead, stopping)
        return held.start_sources(arrivals.build_sources(self.settings.sources))

    def _run_maintenance(self) -> None:
        self.upkeep.run_maintenance()
        AccountCatalog(self.catalog).expire_audit(parse_duration(self.settings.upkeep.audit))
        if self.settings.push.forget is not None:
            self.catalog.expire_producers(parse_duration(self.settings.push.forget))
        self.workshop.ledger.expire_submissions(parse_duration(self.settings.upkeep.past))

    def _evict_datasets(self, evictor: DatasetEvictor) -> None:
        """Make room, if datasets hold more than they may."""
        done = evictor.enforce_budgets()
        for problem in () if done is None else done.problems:
            log.warning("datasets hold more than their budget allows: %s", problem)
        if done is not None and done.going:
            log.info("evicted %d datasets with %d bytes", len(done.going), done.freed_bytes)

    def explain(self, table: str) -> TableExplanation:
        """How a table is kept fresh, in which ways it could be, and which of them a run would take now, and why."""
        declared = (*self.project.workflows, *self._build_registered_workflows())
        return explain_table(self.catalog, declared, self.project.list_updates(), table)

    def history(self) -> StalenessHistory:
        """What became visible lately, from which follows how stale tables were."""
        return read_history(self.catalog, read_status(self.catalog), list_newest_events(self.catalog, EVENTS))

    def kill(self, run: int) -> Run:
        return self.catalog.kill_run(run)

    def read(self, channel: str, as_of: str | None = None) -> Any:
        """The content of a channel as a DataFrame, now or as of a block's number or a time."""
        return self.engine.read_frame(self._record_merge_cost(self.content(channel, as_of)))

    def rows(self, channel: str, as_of: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        return self.engine.read_rows(self._record_merge_cost(self.content(channel, as_of)), limit)

    def content(self, channel: str, as_of: str | None = None) -> Snapshot:
        """The blocks that make up the content of a channel; to ask for them does not count as reading it."""
        at = self.catalog.read_channel(channel).head if as_of is None else self._resolve_position(channel, as_of)
        return ChannelViews(self.catalog, self._list_updates()).build_snapshot(channel, at.seq)

    def _record_merge_cost(self, content: Snapshot) -> Snapshot:
        """Whoever reads pays for merging, and it is remembered how much; a new base would not help to see the past."""
        if content.at == self.catalog.read_channel(content.channel).head.seq:
            self.catalog.record_merge_costs({content.channel: estimate_merge_seconds(content)})
        return content

    def lineage(self, channel: str, tag: str) -> EventLineage:
        """What an event derives from, and what was made of it, by the tag of its wave."""

        def find_rows(name: str, condition: str) -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = self.read(name).where(condition).toArrow().to_pylist()
            return rows

        return trace_lineage(self.catalog, find_rows, channel, tag)

    def tap(self, channel: str, *, all_there_is: bool = False) -> ChangeFeed:
        """A look at what is new on a channel from now on, or at all there is first; it is no part of a workflow."""
        at = 0 if all_there_is else self.catalog.read_channel(channel).head.seq
        return ChangeFeed(self.catalog, self.engine, self._list_updates(), channel, at)

    def trace(self, block: int) -> BlockTrace:
        return trace_block(self.catalog, block)

    def compact(self, channel: str) -> Block | None:
        """Merge a channel's deltas into a base, so that reading it becomes cheap; None if nothing is to do."""
        return self.upkeep.compactor.compact_major(channel)

    def compaction(self, channel: str) -> str | None:
        """Whether a compaction is due on a channel, and why; None if nothing was written to it yet."""
        return explain_compaction(self.catalog, self._list_updates(), channel)

    def collect(self, keep: str | None = None, grace: str | None = None) -> CollectionResult:
        """Collect blocks that nobody can need; `keep` ('7 days') says how far back to stay readable.

        Their files, and what dead runs left, are marked, and removed once they were for as long as the settings say,
        or for `grace` ('0s': at once).
        """
        return VacuumService(self.executor, grace=self._parse_grace(grace)).collect_garbage(
            _parse_since(keep, self.catalog.read_time())
        )

    def scan(self) -> ScanResult:
        """List the whole store, and mark for removal what runs of this catalog left in it and nothing names."""
        return VacuumService(self.executor).scan_store()

    def find_missing_files(self, sample: int = SAMPLE) -> tuple[int, int, list[str]]:
        """Of how many files that the catalog names how many were looked for in the store, and those not found there."""
        named = sorted(self.catalog.list_referenced_files())
        looked_for = named[:: max(1, -(-len(named) // sample))]
        missing = self.store.find_missing(looked_for)
        still_named = self.catalog.find_referenced_files(missing)  # others were removed meanwhile
        return len(named), len(looked_for), sorted(still_named)

    def _parse_grace(self, grace: str | None) -> GracePeriods:
        if grace is None:
            return self.upkeep.rules.grace
        try:
            return GracePeriods(parse_duration(grace), parse_duration(grace))
        except ValueError as error:
            raise BadInput(str(error)) from error

    def tidy(self, channels: Iterable[str] | None = None) -> MaintenanceResult:
        """Do what is due on these channels, or on all: fold and rebase, collect what nobody needs, forget old runs.

        It costs a few queries a channel if nothing is due, and never fails for a compaction that did.
        """
        return self.upkeep.maintain_channels(channels)

    def _compute_difference(self, workflow: WorkflowSpec) -> tuple[RegistrationChange, ...]:
        channels = [c.channel for c in self.catalog.list_channels() if c.workflow == workflow.name]
        bindings = {
            b.name: (b.identity, ", ".join(t["name"] for t in b.spec["tasks"]))
            for b in self.catalog.list_bindings()
            if b.workflow == workflow.name
        }
        return diff_registration(workflow, channels, bindings)

    def _get_applied_binding(self, name: str) -> BoundFlow:
        """The declared flow of that name, provided that it is the one registered."""
        binding = self._find_binding(name)
        registered = {b.name: b.identity for b in self.catalog.list_bindings()}
        if (
            binding is not None and registered.get(name) != binding.compute_identity()
        ):  # others may have learnt more since
            self._resolve_project(read_knowledge(self.catalog))
            binding = self._find_binding(name)
        if binding is None:
            known = ", ".join(sorted(b.name for w in self.project.workflows for b in w.bindings))
            raise NotFound(f"no flow {name!r} is declared; the flows are {known or 'none'}")
        if registered.get(name) != binding.compute_identity():
            raise ConfigError(f"flow {name!r} was changed since it was registered; look with plan, then apply")
        return binding

    def _find_binding(self, name: str) -> BoundFlow | None:
        documented = (b for w in self._build_registered_workflows() for b in w.bindings if b.name == name)
        return self.project.find_binding(name) or next(documented, None)

    def _build_registered_workflows(self) -> Iterator[WorkflowSpec]:
        """The workflows that documents declare."""
        documents = [w.document for w in self.catalog.list_workflows() if w.document is not None]
        knowledge = read_knowledge(self.catalog) if documents else NOTHING_KNOWN
        for document in documents:
            yield registry.build_workflow(registry.load_definition(document), knowledge)

    def _resolve_position(self, channel: str, as_of: str) -> ChannelPosition:
        """Where a channel stood; what has not come yet is no content, and asking for it an error."""
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
                f"{as_of} has not come yet: it is {format_version(to_microseconds(now))}, "
                f"and the head of channel {channel} is at "
                f"{head}; leave the time out to read what is there now"
            )
        return self.catalog.read_position(channel, version=version)

    def _list_updates(self) -> dict[str, Updates]:
        """The declared merge kinds where any channel needs the user's own functions; else the catalog knows them."""
        custom = any(c.channel.updates.name == "custom" for c in self.catalog.list_channels())
        return self.project.list_updates() if custom else {}


def _build_maintenance_rules(upkeep: MaintenanceSettings) -> MaintenanceRules:
    keep = None if upkeep.keep is None else parse_duration(upkeep.keep)
    grace = GracePeriods(parse_duration(upkeep.grace), parse_duration(upkeep.orphans))
    return MaintenanceRules(
        upkeep.automatic, upkeep.history, upkeep.points, keep, grace, CompactionLimits(small_file=upkeep.small_file)
    )


def _open_catalog_and_store(directory: Path, settings: Settings) -> tuple[SqlCatalog, BlockStore]:
    """The catalog and the store of a project, whether or not they belong together."""
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
        return StorageBudget(parse_size(size), storage.threshold)

    whole = None if storage.budget is None else build_budget(storage.budget)
    return StorageBudgets(whole, {name: build_budget(size) for name, size in storage.budgets.items()})


def _check_targets(workflow: WorkflowSpec) -> None:
    """Refuse promises that cannot all be kept."""
    if any(c.promise for c in workflow.channels):
        found = find_target_problems(build_graph(workflow))
        if found:
            raise WorkflowError([f"workflow {workflow.name!r}, {p.where}: {p.why}" for p in found])


def _build_receiver(name: str, settings: WebhookSettings | MailSettings) -> WebhookReceiver | MailReceiver:
    kinds = frozenset(settings.events)
    if isinstance(settings, WebhookSettings):
        return WebhookReceiver(name, settings.url, settings.secret, kinds)
    return MailReceiver(name, build_postbox(settings), kinds)


def _parse_since(keep: str | None, now: float) -> int | None:
    """The clock's reading so long ago."""
    try:
        return None if keep is None else to_microseconds(now - parse_duration(keep))
    except ValueError as error:
        raise BadInput(str(error)) from error


def _create_home(project: Path) -> None:
    try:
        (project / HOME).mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{project / HOME} cannot be made: {error.strerror}; choose a writable directory") from error


_opened = count(1)


def _build_owner_name() -> str:
    """Who executes: this process on this machine, and which of the projects that it opened."""
    number = next(_opened)
    return f"{socket.gethostname()}:{os.getpid()}" + ("" if number == 1 else f":{number}")
