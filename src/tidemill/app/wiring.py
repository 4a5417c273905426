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
from tidemill.app.deliveries import deliveries, post_of
from tidemill.app.project import Project, load_project, located, sources_of
from tidemill.app.settings import (
    HOME,
    MailSettings,
    Settings,
    StorageSettings,
    UpkeepSettings,
    WebhookSettings,
    find_project,
    load_settings,
    resolved_path,
    resolved_sqlite,
)
from tidemill.app.sources import Arrivals
from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.catalog.access import Accounts
from tidemill.catalog.dataset_catalog import Ledger
from tidemill.catalog.pagination import newest_events
from tidemill.errors import BadInput, ConfigError, Conflict, NotFound, TidemillError, WorkflowError
from tidemill.intake import insert_batch, is_table, load_file, load_table
from tidemill.model.analysis import NOTHING_KNOWN, Knowledge
from tidemill.model.block import Block, Kind, Position, to_kind
from tidemill.model.change import Updates
from tidemill.model.flow import Binding
from tidemill.model.registration import Step, difference
from tidemill.model.run import Run, RunKind
from tidemill.model.store import Grace, StoreMarker
from tidemill.model.timestamps import microseconds, parse_instant, shown
from tidemill.model.units import bytes_in, seconds
from tidemill.model.view import Snapshot
from tidemill.model.workflow import Workflow, vain_triggers
from tidemill.planner.explanation import Explanation
from tidemill.planner.refresh_mode import Choice
from tidemill.planner.validation import broken_promises
from tidemill.planner.workflow_graph import graph_of
from tidemill.ports.engine import Progress
from tidemill.ports.records import Server
from tidemill.ports.storage import BlockStore
from tidemill.publish import Mail, Notifier, Webhook, receivers
from tidemill.retention.compaction import Limits, merging
from tidemill.runtime.freshness.catch_up import Portion, attempt
from tidemill.runtime.freshness.controller import Keeper
from tidemill.runtime.freshness.infeasible_targets import doubts
from tidemill.runtime.freshness.refresh_mode import chosen
from tidemill.runtime.freshness.staleness import History
from tidemill.runtime.freshness.visibility import EVENTS, history
from tidemill.runtime.inspect.block_trace import Trace, trace
from tidemill.runtime.inspect.change_feed import Tap
from tidemill.runtime.inspect.explain import explain
from tidemill.runtime.inspect.lineage import Lineage, lineage
from tidemill.runtime.inspect.status import status
from tidemill.runtime.maintenance.compaction import said
from tidemill.runtime.maintenance.service import Rules, Upkeep
from tidemill.runtime.maintenance.store_ownership import adopt_store, advance_marker, check_store
from tidemill.runtime.maintenance.vacuum import Collected, Janitor, Scanned, Tidied
from tidemill.runtime.oneshot.eviction import Evictor
from tidemill.runtime.oneshot.service import Workshop
from tidemill.runtime.oneshot.storage_report import Budget, Budgets
from tidemill.runtime.runs.analysis import find_taught, recall, remember, remember_learnt
from tidemill.runtime.runs.dispatch import Way
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.insert import Inserted, Inserter
from tidemill.runtime.runs.insert_batcher import Gatherer
from tidemill.runtime.runs.server import Chore, Loop, Rhythm
from tidemill.runtime.runs.sources import Sources
from tidemill.runtime.runs.views import Views
from tidemill.spark.engine import SparkEngine
from tidemill.spark.session import ship, start
from tidemill.spark.store_probe import start_on_store
from tidemill.storage import Placer, open_store

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
        self.catalog, self.store = _open_both(directory, settings)
        try:
            check_store(self.catalog, self.store)
        except BaseException:
            self.catalog.close()
            raise
        session = partial(start, settings.spark.master, settings.spark.settings)
        self.engine = SparkEngine(partial(start_on_store, session, self.store), self.store.locate)
        self.executor = Executor(
            self.catalog, self.store, self.engine, _owner(), lease=settings.runs.lease, busy=settings.runs.busy
        )
        self.upkeep = Upkeep(self.executor, self._updates, _rules(settings.upkeep))
        self.workshop = self._workshop()
        """Submits one-shot workflows, runs their actions and keeps what they make."""

    @property
    def gatherer(self) -> Gatherer:
        """Inserts small files for many callers."""
        return Gatherer(Inserter(self.executor, load_file), insert_batch)

    def _workshop(self) -> Workshop:
        return Workshop(
            self.executor,
            Ledger(self.catalog),
            sources_of(self.directory, ship),
            os.environ,
            partial(located, self.directory),
            Placer(self.store.locate, self.directory),
            _budgets(self.settings.storage),
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
        catalog, store = _open_both(found, load_settings(found))
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
            self._resolve(recall(self.catalog))
        assert self._project is not None
        for module in self._project.modules:
            ship(module)
        return self._project

    def _resolve(self, knowledge: Knowledge) -> None:
        if self._declared is None:
            self._declared = load_project(self.directory, self.settings.workflows)
        self._project = self._declared.resolved(knowledge)
        self._knowledge = knowledge

    def _learn(self) -> None:
        """Ask Spark about queries that nobody asked it about before; raises `WorkflowError` if it refuses one."""
        knowledge = recall(self.catalog, self.engine)
        self._resolve(knowledge)
        remember(self.catalog, knowledge)

    def register(self, data: Mapping[str, Any]) -> tuple[Step, ...]:
        """Register a workflow that comes as a document; returns what changed."""
        document = registry.parsed(data)
        knowledge = recall(self.catalog, self.engine)
        workflow = registry.built(document, knowledge)
        if any(w.name == workflow.name for w in self.project.workflows):
            raise Conflict(f"workflow {workflow.name!r} is declared by a workflow file of this server; change that")
        _check_promises(workflow)
        self._check_triggers(workflow)
        remember(self.catalog, knowledge)
        steps = self._difference(workflow)
        self.catalog.apply(workflow, document.model_dump(mode="json"))
        return steps

    def remove(self, workflow: str) -> None:
        """Take a workflow out of use; its data stay."""
        if any(w.name == workflow for w in self.project.workflows):
            raise Conflict(f"workflow {workflow!r} is declared by a workflow file; take it out there, then apply")
        self.catalog.remove(workflow)

    def plan(self) -> tuple[Step, ...]:
        """What `apply` would change; raises `WorkflowError` for queries that Spark refuses, promises that exclude
        each other, and triggers that wait for what nobody declares.

        It raises `Conflict`, as `apply` does, for changes with which the data that are there could not be read.
        """
        self._learn()
        for workflow in self.project.workflows:
            _check_promises(workflow)
            self._check_triggers(workflow)
        refused = [reason for workflow in self.project.workflows for reason in self.catalog.refusals(workflow)]
        if refused:
            raise Conflict("\n".join(refused))
        return tuple(step for workflow in self.project.workflows for step in self._difference(workflow))

    def _check_triggers(self, workflow: Workflow) -> None:
        """Refuse triggers that no data and no run would ever fire."""
        declared = [workflow, *self.project.workflows]
        channels = {c.name for w in declared for c in w.channels} | {c.channel.name for c in self.catalog.channels()}
        flows = {b.name for w in declared for b in w.bindings} | {b.name for b in self.catalog.bindings()}
        problems = list(vain_triggers(workflow, channels, flows))
        if problems:
            raise WorkflowError(problems)

    def doubts(self) -> tuple[str, ...]:
        """Promises that history says cannot be kept, and why."""
        return tuple(d for workflow in self.project.workflows for d in doubts(self.catalog, workflow))

    def apply(self) -> tuple[Step, ...]:
        """Register what the workflow files declare; returns what changed."""
        steps = self.plan()
        for workflow in self.project.workflows:
            self.catalog.apply(workflow)
        return steps

    def insert(
        self,
        channel: str,
        data: Any,
        *,
        format: str | None = None,
        kind: Kind | str = Kind.DELTA,
        key: str | None = None,
        progress: Progress | None = None,
    ) -> Inserted:
        """Insert data into an input channel: all of it, or nothing.

        A file by its path, a DataFrame of Spark or pandas, an Arrow table, or a list of rows. `kind` is "delta", a
        change to the content, or "base", the whole content. A second insert with the same `key` changes nothing and
        finds the first one's block.
        """
        chosen = to_kind(kind)
        if isinstance(data, str | Path):
            inserter = Inserter(self.executor, load_file)
            return inserter.file(channel, Path(data), format=format, kind=chosen, key=key, progress=progress)
        if is_table(data):
            inserter = Inserter(self.executor, partial(load_table, data))
            return inserter.file(channel, Path(), format="parquet", kind=chosen, key=key, progress=progress)
        return Inserter(self.executor, load_file).frame(channel, data, kind=chosen, key=key)

    def run(
        self,
        name: str,
        progress: Progress | None = None,
        *,
        variant: str | None = None,
        tell: Callable[[Mapping[str, Choice]], None] | None = None,
    ) -> tuple[Run, list[Block]]:
        """Run a bound flow once, to its end; its declared tables the cheapest way, or as `variant` says.

        With the variant "batch" programmed tasks, too, compute everything anew: they are fed all there is as new, and
        what they write replaces what was there.
        `tell` is told beforehand, for each declared table, the variant chosen and why.
        """
        updates = self.project.updates()
        applied = self._applied(name)
        if variant is None and (keeper := self._keeper(applied)) is not None:
            done = keeper.run(applied, progress)
            self._after(done[1])
            return done
        binding, choices = chosen(self.catalog, applied, updates, variant=variant)
        if variant == program.Way.BATCH:
            binding = self._afresh(binding)
        elif variant is not None and not choices:
            raise ConfigError(f"flow {name!r} has no declared table, so there is no variant {variant!r} to choose")
        if tell is not None:
            tell(choices)
        done = self.executor.flow(binding, updates, progress)
        self._after(done[1])
        return done

    def _after(self, made: Iterable[Block]) -> None:
        """What follows a run: tables become incremental whose inputs it was the first to write, and upkeep begins."""
        blocks = list(made)
        self._apply_what_was_learnt(blocks)
        self.upkeep.begin_after(blocks)

    def _apply_what_was_learnt(self, blocks: Sequence[Block]) -> None:
        """If a declared table reads a channel whose columns only this run has shown, work it out again."""
        for workflow in self.project.workflows:
            taught = find_taught(self._knowledge, workflow, blocks)
            if taught and not self._difference(workflow):  # what its user has changed since is not ours to apply
                remember_learnt(self.catalog, taught)
                try:
                    self.apply()
                except TidemillError as error:  # the run is committed; the table stays in batch until it is applied
                    log.warning("what run %s has shown was not applied: %s", blocks[0].run, error)
                return

    def _afresh(self, binding: Binding) -> Binding:
        """The flow with its programmed tasks as if they had never run."""
        writers = Counter(w.port for b in self._declared_bindings() for t in b.tasks for w in t.writes)
        for write in (w for t in binding.tasks if t.refresh is None for w in t.writes):
            if writers[write.port] > 1:
                raise ConfigError(
                    f"flow {binding.name!r} cannot be computed from scratch: other tasks add to {write.port!r}, too, "
                    "and what they added would be gone; give each a channel of its own"
                )
        return replace(binding, tasks=tuple(t if t.refresh is not None else t.afresh() for t in binding.tasks))

    def _declared_bindings(self) -> Iterator[Binding]:
        return (b for w in (*self.project.workflows, *self._documented()) for b in w.bindings)

    def execute(self, run: Run, portion: Portion | None = None) -> None:
        """One attempt at a run that somebody asked for, if its flow is declared here as it is registered.

        It loads a portion of what waits at most, unless promises say how far it reads.
        """
        if run.kind is RunKind.ACTION:
            self._act(run)
            return
        updates = self.project.updates()
        try:
            applied = self._applied(run.subject)
        except (NotFound, ConfigError) as error:
            log.warning("run %d of %s is left to other servers: %s", run.id, run.subject, error)
            return
        try:
            if not run.backfill and (keeper := self._keeper(applied)) is not None:
                made = keeper.attempt(run, applied)
            else:
                variant = program.Way.BATCH if run.backfill else None
                binding, _ = chosen(self.catalog, applied, updates, variant=variant)
                made = attempt(self.executor, run, binding, updates, portion)
        except TidemillError as error:
            log.error("run %d of %s: %s", run.id, run.subject, error)
            return
        if made is not None:
            log.info("run %d of %s: %s", run.id, run.subject, ", ".join(f"{b.rows} rows to {b.channel}" for b in made))
            self._after(made)

    def _act(self, run: Run) -> None:
        try:
            if self.workshop.attempt(run):
                log.info("run %d of %s: made", run.id, run.subject)
        except TidemillError as error:
            log.error("run %d of %s: %s", run.id, run.subject, error)

    def _keeper(self, binding: Binding) -> Keeper | None:
        """Who runs a flow of whose channels something is promised."""
        declared = (*self.project.workflows, *self._documented())
        workflow = next(w for w in declared if any(b.name == binding.name for b in w.bindings))
        promised = any(c.promise for c in workflow.channels if c.name in binding.written)
        how = self.settings.planner
        keeper = Keeper(self.executor, self.project.updates(), workflow, how.asynchronous, how.incremental)
        return keeper if promised else None

    @property
    def way(self) -> Way:
        """How servers of this project dispatch, unless people wish otherwise."""
        own = self.settings.server
        return Way(**{field.name: getattr(own, field.name) for field in fields(Way)})

    def loop(self, role: str, tracks: int | None = None) -> Loop:
        """A server of this project."""
        chosen = self.settings.server
        self.upkeep = replace(self.upkeep, stopping=threading.Event())
        server = Server(self.executor.owner, role, tracks or chosen.tracks)
        way = replace(self.way, tracks=server.tracks)
        notifier = Notifier(self.catalog, receivers(_receiver(n, s) for n, s in self.settings.notify.items()))
        evictor = self.workshop.evictor()
        chores = [
            Chore("telling", chosen.tick, notifier),
            Chore("keeping house", chosen.chores, self._keep_house),
            Chore("keeping datasets", chosen.chores, partial(self._keep_datasets, evictor)),
            Chore("putting copies in place", chosen.chores, self.workshop.put_in_place),
        ]
        out = deliveries(self.settings.deliver, self.catalog, self.store.open, self.gatherer)
        chores += [Chore(f"delivering to {delivery.name}", chosen.tick, delivery) for delivery in out]
        rhythm = Rhythm(tick=chosen.tick, lead=chosen.lead)
        return Loop(self.catalog, server, self.execute, chores, rhythm, way, self.upkeep.stopping, self.executor)

    def sources(self, wake: Callable[[], None]) -> Sources:
        """What brings in data by itself, while it is entered; `wake` is called when some came."""
        stopping = threading.Event()
        arrivals = Arrivals(self.gatherer, self.directory, self.settings.push, stopping, wake)
        held = Sources(self.catalog, self.executor.owner, self.settings.server.lead, stopping)
        return held.start(arrivals.sources(self.settings.sources))

    def _keep_house(self) -> None:
        self.upkeep.keep_house()
        Accounts(self.catalog).forget(seconds(self.settings.upkeep.audit))
        if self.settings.push.forget is not None:
            self.catalog.forget_producers(seconds(self.settings.push.forget))
        self.workshop.ledger.forget(seconds(self.settings.upkeep.past))

    def _keep_datasets(self, evictor: Evictor) -> None:
        """Make room, if datasets hold more than they may."""
        done = evictor.keep_within()
        for problem in () if done is None else done.problems:
            log.warning("datasets hold more than their budget allows: %s", problem)
        if done is not None and done.going:
            log.info("evicted %d datasets with %d bytes", len(done.going), done.freed)

    def explain(self, table: str) -> Explanation:
        """How a table is kept fresh, in which ways it could be, and which of them a run would take now, and why."""
        declared = (*self.project.workflows, *self._documented())
        return explain(self.catalog, declared, self.project.updates(), table)

    def history(self) -> History:
        """What became visible lately, from which follows how stale tables were."""
        return history(self.catalog, status(self.catalog), newest_events(self.catalog, EVENTS))

    def kill(self, run: int) -> Run:
        return self.catalog.kill(run)

    def read(self, channel: str, as_of: str | None = None) -> Any:
        """The content of a channel as a DataFrame, now or as of a block's number or a time."""
        return self.engine.frame(self._counted(self.content(channel, as_of)))

    def rows(self, channel: str, as_of: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        return self.engine.rows(self._counted(self.content(channel, as_of)), limit)

    def content(self, channel: str, as_of: str | None = None) -> Snapshot:
        """The blocks that make up the content of a channel; to ask for them does not count as reading it."""
        at = self.catalog.channel(channel).head if as_of is None else self._position(channel, as_of)
        return Views(self.catalog, self._updates()).snapshot(channel, at.seq)

    def _counted(self, content: Snapshot) -> Snapshot:
        """Whoever reads pays for merging, and it is remembered how much; a new base would not help to see the past."""
        if content.at == self.catalog.channel(content.channel).head.seq:
            self.catalog.merged({content.channel: merging(content)})
        return content

    def lineage(self, channel: str, tag: str) -> Lineage:
        """What an event derives from, and what was made of it, by the tag of its wave."""

        def find(name: str, condition: str) -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = self.read(name).where(condition).toArrow().to_pylist()
            return rows

        return lineage(self.catalog, find, channel, tag)

    def tap(self, channel: str, *, all_there_is: bool = False) -> Tap:
        """A look at what is new on a channel from now on, or at all there is first; it is no part of a workflow."""
        at = 0 if all_there_is else self.catalog.channel(channel).head.seq
        return Tap(self.catalog, self.engine, self._updates(), channel, at)

    def trace(self, block: int) -> Trace:
        return trace(self.catalog, block)

    def compact(self, channel: str) -> Block | None:
        """Merge a channel's deltas into a base, so that reading it becomes cheap; None if nothing is to do."""
        return self.upkeep.compactor.rebase(channel)

    def compaction(self, channel: str) -> str | None:
        """Whether a compaction is due on a channel, and why; None if nothing was written to it yet."""
        return said(self.catalog, self._updates(), channel)

    def collect(self, keep: str | None = None, grace: str | None = None) -> Collected:
        """Collect blocks that nobody can need; `keep` ('7 days') says how far back to stay readable.

        Their files, and what dead runs left, are marked, and removed once they were for as long as the settings say,
        or for `grace` ('0s': at once).
        """
        return Janitor(self.executor, grace=self._grace(grace)).collect(_since(keep, self.catalog.now()))

    def scan(self) -> Scanned:
        """List the whole store, and mark for removal what runs of this catalog left in it and nothing names."""
        return Janitor(self.executor).scan()

    def find_missing_files(self, sample: int = SAMPLE) -> tuple[int, int, list[str]]:
        """Of how many files that the catalog names how many were looked for in the store, and those not found there."""
        named = sorted(self.catalog.named_files())
        looked_for = named[:: max(1, -(-len(named) // sample))]
        missing = self.store.find_missing(looked_for)
        still_named = self.catalog.list_named(missing)  # others were removed meanwhile
        return len(named), len(looked_for), sorted(still_named)

    def _grace(self, grace: str | None) -> Grace:
        if grace is None:
            return self.upkeep.rules.grace
        try:
            return Grace(seconds(grace), seconds(grace))
        except ValueError as error:
            raise BadInput(str(error)) from error

    def tidy(self, channels: Iterable[str] | None = None) -> Tidied:
        """Do what is due on these channels, or on all: fold and rebase, collect what nobody needs, forget old runs.

        It costs a few queries a channel if nothing is due, and never fails for a compaction that did.
        """
        return self.upkeep.tidy(channels)

    def _difference(self, workflow: Workflow) -> tuple[Step, ...]:
        channels = [c.channel for c in self.catalog.channels() if c.workflow == workflow.name]
        bindings = {
            b.name: (b.identity, ", ".join(t["name"] for t in b.spec["tasks"]))
            for b in self.catalog.bindings()
            if b.workflow == workflow.name
        }
        return difference(workflow, channels, bindings)

    def _applied(self, name: str) -> Binding:
        """The declared flow of that name, provided that it is the one registered."""
        binding = self._binding(name)
        registered = {b.name: b.identity for b in self.catalog.bindings()}
        if binding is not None and registered.get(name) != binding.identity():  # others may have learnt more since
            self._resolve(recall(self.catalog))
            binding = self._binding(name)
        if binding is None:
            known = ", ".join(sorted(b.name for w in self.project.workflows for b in w.bindings))
            raise NotFound(f"no flow {name!r} is declared; the flows are {known or 'none'}")
        if registered.get(name) != binding.identity():
            raise ConfigError(f"flow {name!r} was changed since it was registered; look with plan, then apply")
        return binding

    def _binding(self, name: str) -> Binding | None:
        documented = (b for w in self._documented() for b in w.bindings if b.name == name)
        return self.project.binding(name) or next(documented, None)

    def _documented(self) -> Iterator[Workflow]:
        """The workflows that documents declare."""
        documents = [w.document for w in self.catalog.workflows() if w.document is not None]
        knowledge = recall(self.catalog) if documents else NOTHING_KNOWN
        for document in documents:
            yield registry.built(registry.as_document(document), knowledge)

    def _position(self, channel: str, as_of: str) -> Position:
        """Where a channel stood; what has not come yet is no content, and asking for it an error."""
        head, now = self.catalog.channel(channel).head.seq, self.catalog.now()
        if as_of.isdecimal():
            if int(as_of) > head:
                raise BadInput(f"channel {channel} has no block {as_of} yet: its head is at {head}; read up to there")
            return self.catalog.position(channel, seq=int(as_of))
        try:
            version = parse_instant(as_of)
        except ValueError as error:
            raise BadInput(f"{error}, or the sequence number of a block") from error
        if version > microseconds(now):
            raise BadInput(
                f"{as_of} has not come yet: it is {shown(microseconds(now))}, and the head of channel {channel} is at "
                f"{head}; leave the time out to read what is there now"
            )
        return self.catalog.position(channel, version=version)

    def _updates(self) -> dict[str, Updates]:
        """The declared merge kinds where any channel needs the user's own functions; else the catalog knows them."""
        custom = any(c.channel.updates.name == "custom" for c in self.catalog.channels())
        return self.project.updates() if custom else {}


def _rules(upkeep: UpkeepSettings) -> Rules:
    keep = None if upkeep.keep is None else seconds(upkeep.keep)
    grace = Grace(seconds(upkeep.grace), seconds(upkeep.orphans))
    return Rules(upkeep.automatic, upkeep.history, upkeep.points, keep, grace, Limits(small_file=upkeep.small_file))


def _open_both(directory: Path, settings: Settings) -> tuple[SqlCatalog, BlockStore]:
    """The catalog and the store of a project, whether or not they belong together."""
    _make_home(directory)
    catalog = open_catalog(resolved_sqlite(settings.catalog.url, directory))
    try:
        store = open_store(
            resolved_path(settings.storage.url, directory),
            cache=directory / settings.storage.cache,
            staged=settings.storage.staged,
            options=settings.storage.options,
        )
    except BaseException:
        catalog.close()
        raise
    return catalog, store


def _budgets(storage: StorageSettings) -> Budgets:
    def budget(size: str) -> Budget:
        return Budget(bytes_in(size), storage.threshold)

    whole = None if storage.budget is None else budget(storage.budget)
    return Budgets(whole, {name: budget(size) for name, size in storage.budgets.items()})


def _check_promises(workflow: Workflow) -> None:
    """Refuse promises that cannot all be kept."""
    if any(c.promise for c in workflow.channels):
        found = broken_promises(graph_of(workflow))
        if found:
            raise WorkflowError([f"workflow {workflow.name!r}, {p.where}: {p.why}" for p in found])


def _receiver(name: str, settings: WebhookSettings | MailSettings) -> Webhook | Mail:
    kinds = frozenset(settings.events)
    if isinstance(settings, WebhookSettings):
        return Webhook(name, settings.url, settings.secret, kinds)
    return Mail(name, post_of(settings), kinds)


def _since(keep: str | None, now: float) -> int | None:
    """The clock's reading so long ago."""
    try:
        return None if keep is None else microseconds(now - seconds(keep))
    except ValueError as error:
        raise BadInput(str(error)) from error


def _make_home(project: Path) -> None:
    try:
        (project / HOME).mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{project / HOME} cannot be made: {error.strerror}; choose a writable directory") from error


_opened = count(1)


def _owner() -> str:
    """Who executes: this process on this machine, and which of the projects that it opened."""
    number = next(_opened)
    return f"{socket.gethostname()}:{os.getpid()}" + ("" if number == 1 else f":{number}")
