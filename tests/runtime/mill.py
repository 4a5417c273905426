"""A workflow on a catalog whose clock the test sets, with an engine in plain Python unless another is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.acceptance.plain import QueryEngine

from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.intake.loader import load_file
from tidemill.model.change import Rows
from tidemill.model.flow import BoundFlow
from tidemill.model.run import Run, RunState
from tidemill.model.time import Timeline
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.catalog_state import TargetStatus, compute_target_status
from tidemill.ports.engine import Engine
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.freshness.controller import FreshnessController
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.insert import Inserter
from tidemill.runtime.runs.views import ChannelViews
from tidemill.storage import open_store


class Mill:
    """Inserts rows, fires due triggers, and executes runs that meet freshness targets."""

    def __init__(
        self, workflow: WorkflowSpec, directory: Path, engine: Callable[[Callable[[str], str]], Engine] = QueryEngine
    ) -> None:
        self.now = 1_000_000.0
        self.directory = directory
        self.workflow = workflow
        self.catalog: SqlCatalog = open_catalog(f"sqlite:///{directory / 'catalog.db'}", clock=lambda: self.now)
        self.catalog.workflows.apply(workflow)
        store = open_store(str(directory / "blocks"))
        self.executor = Executor(self.catalog, store, engine(store.locate_file), "me")

    def insert(self, channel: str, *lines: str) -> None:
        declared = self.workflow.find_channel(channel)
        assert declared is not None
        assert declared.schema is not None
        path = self.directory / "new.csv"
        path.write_text("\n".join([",".join(declared.schema.names), *lines]) + "\n")
        Inserter(self.executor, load_file).insert_file(channel, path)

    def insert_rows(self, channel: str, rows: Iterable[Mapping[str, Any]]) -> None:
        path = self.directory / "new.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        Inserter(self.executor, load_file).insert_file(channel, path)

    def fire_due_triggers(self) -> list[Run]:
        """Fire all due triggers; returns the requested runs."""
        runs = {self.catalog.triggers.fire(leaf) for leaf in self.catalog.triggers.list_due()}
        return [self.catalog.runs.read(run) for run in sorted(run for run in runs if run is not None)]

    def attempt(self, run: Run, limit: CatchUpLimit | None = None) -> Run:
        self.controller.execute_run(run, self.binding(run.subject), limit)
        return self.catalog.runs.read(run.id)

    @property
    def controller(self) -> FreshnessController:
        return FreshnessController(self.executor, {}, self.workflow)

    def binding(self, flow: str) -> BoundFlow:
        return next(b for b in self.workflow.bindings if b.name == flow)

    def content(self, channel: str, seq: int | None = None) -> Rows:
        upto = self.catalog.channels.read(channel).head.seq if seq is None else seq
        return list(self.executor.engine.read_rows(ChannelViews(self.catalog, {}).build_snapshot(channel, upto)))

    def rows(self, channel: str) -> set[tuple[Any, ...]]:
        return {tuple(row.values()) for row in self.content(channel)}

    def list_refreshes(self) -> list[tuple[str, str]]:
        """The finished refreshes, oldest first: the flow and the variant of its only task."""
        finished = (r for r in self.catalog.runs.list() if r.state is RunState.FINISHED and r.stats.get("tasks"))
        return [
            (r.subject, r.stats["tasks"][r.subject]["variant"]) for r in sorted(finished, key=lambda r: r.fencing_token)
        ]

    def read_target_status(self, channel: str) -> TargetStatus:
        """The status of a table's freshness target."""
        registered = self.catalog.channels.read(channel)
        return compute_target_status(registered.channel.freshness_target, registered.head.provenance, self.timeline())

    def timeline(self) -> Timeline:
        inputs = [c.name for c in self.workflow.channels if c.role == "input"]
        versions = self.catalog.channels.list_versions(dict.fromkeys(inputs, 0))
        newest = max((v[-1] for v in versions.values() if v), default=0)
        return Timeline(versions, max(int(self.now * 1_000_000), newest + 1))

    def read_pathways(self, channel: str) -> Mapping[tuple[str, ...], frozenset[int]]:
        return self.catalog.channels.read(channel).head.provenance.pathways

    def close(self) -> None:
        self.catalog.close()
