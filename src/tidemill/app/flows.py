"""Runs of flows: requested by a user, or by the catalog."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tidemill.algebra import program
from tidemill.app.registration import WorkflowRegistration
from tidemill.app.settings import PlannerSettings
from tidemill.errors import ConfigError, NotFound, TidemillError
from tidemill.model.block import Block
from tidemill.model.flow import BoundFlow
from tidemill.model.run import Run, RunKind
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.refresh_mode import RefreshChoice
from tidemill.ports.engine import Progress
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.freshness.controller import FreshnessController
from tidemill.runtime.runs.execution import Executor

log = logging.getLogger("tidemill.server")

ChoiceReporter = Callable[[Mapping[str, RefreshChoice]], None]


@dataclass(frozen=True, slots=True)
class FlowRunner:
    """Runs the declared flows of a project, and actions of one-shot workflows."""

    executor: Executor
    workflows: WorkflowRegistration
    planner: PlannerSettings
    execute_action: Callable[[Run], bool]
    begin_maintenance: Callable[[list[Block]], None]

    def replace_maintenance(self, begin_maintenance: Callable[[list[Block]], None]) -> FlowRunner:
        return replace(self, begin_maintenance=begin_maintenance)

    def run(
        self, name: str, progress: Progress | None, *, variant: str | None, on_choice: ChoiceReporter | None
    ) -> tuple[Run, list[Block]]:
        """Run a bound flow once, to its end."""
        binding = self.workflows.find_applied_binding(name)
        self.executor.check_storage(self._find_workflow(binding).name)
        if variant == program.RefreshMode.BATCH:
            binding = self._reset_programmed_tasks(binding)
        elif variant is not None and all(t.refresh is None for t in binding.tasks):
            raise ConfigError(f"flow {name!r} has no declared table, so there is no variant {variant!r} to choose")
        controller = self._build_controller(binding)
        run, blocks = controller.run_flow(binding, progress, variant=variant, on_choice=on_choice or (lambda _: None))
        self._finish_run(blocks)
        return run, blocks

    def execute(self, run: Run, limit: CatchUpLimit | None = None) -> None:
        """Attempt a requested run, if its flow is declared here as it is registered.

        `limit` limits the data that it loads, unless freshness targets decide how far it reads.
        """
        if run.kind is RunKind.ACTION:
            self._execute_action(run)
            return
        try:
            binding = self.workflows.find_applied_binding(run.subject)
        except (NotFound, ConfigError) as error:
            log.warning("run %d of %s is left to other servers: %s", run.id, run.subject, error)
            return
        variant = program.RefreshMode.BATCH if run.backfill else None
        try:
            blocks = self._build_controller(binding).execute_run(run, binding, limit, variant=variant)
        except TidemillError as error:
            log.error("run %d of %s: %s", run.id, run.subject, error)
            return
        if blocks is not None:
            written = ", ".join(f"{b.rows} rows to {b.channel}" for b in blocks)
            log.info("run %d of %s: %s", run.id, run.subject, written)
            self._finish_run(list(blocks))

    def _execute_action(self, run: Run) -> None:
        try:
            if self.execute_action(run):
                log.info("run %d of %s: finished", run.id, run.subject)
        except TidemillError as error:
            log.error("run %d of %s: %s", run.id, run.subject, error)

    def _finish_run(self, blocks: list[Block]) -> None:
        """Apply schemas that the run's blocks have shown, so that tables can be incremental, and start maintenance."""
        self.workflows.apply_learned_schemas(blocks)
        self.begin_maintenance(blocks)

    def _reset_programmed_tasks(self, binding: BoundFlow) -> BoundFlow:
        """The flow with its programmed tasks as if they had never run."""
        declared = (b for w in self.workflows.list_workflows() for b in w.bindings)
        writers = Counter(w.port for b in declared for t in b.tasks for w in t.writes)
        for write in (w for t in binding.tasks if t.refresh is None for w in t.writes):
            if writers[write.port] > 1:
                raise ConfigError(
                    f"flow {binding.name!r} cannot be computed from scratch: other tasks also write {write.port!r}, "
                    "and their rows would be lost; let each task write a separate channel"
                )
        return replace(binding, tasks=tuple(t if t.refresh is not None else t.to_first_run() for t in binding.tasks))

    def _find_workflow(self, binding: BoundFlow) -> WorkflowSpec:
        declared = self.workflows.list_workflows()
        return next(w for w in declared if any(b.name == binding.name for b in w.bindings))

    def _build_controller(self, binding: BoundFlow) -> FreshnessController:
        """The controller that plans and executes the runs of a flow."""
        workflow = self._find_workflow(binding)
        updates, planner = self.workflows.project.list_updates(), self.planner
        return FreshnessController(
            self.executor, updates, workflow, planner.asynchronous, planner.incremental, planner.strict
        )
