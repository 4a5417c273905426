"""Runs actions: reads their inputs, executes their code, and commits their datasets."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tidemill.api.documents.parser import parse_workflow
from tidemill.api.documents.tasks import OUTPUT, SourceResolver, build_task, to_canonical_task
from tidemill.errors import BlockDamaged, RunFailed, RunKilled, TidemillError
from tidemill.model.action import Action, Script
from tidemill.model.block import BlockKind
from tidemill.model.change import Append
from tidemill.model.description import describe_output, diff_descriptions
from tidemill.model.run import ClaimRequest, Run, RunClaim
from tidemill.model.submission import ActionResult, ActionSpec
from tidemill.model.task import Command, Task
from tidemill.ports.engine import WriteTarget
from tidemill.runtime.runs.execution import Executor, RunWork, compute_backoff
from tidemill.runtime.runs.flow import supervise_task
from tidemill.runtime.runs.leases import Lease
from tidemill.runtime.runs.log import RunLog
from tidemill.runtime.runs.supervision import WorkTimer

_NOT_CODE = ("inputs", "generation", "collision")
"""Parts of a description that do not depend on the action's code."""


_workflow = lru_cache(maxsize=16)(parse_workflow)
"""The actions of a workflow run one after the other: it is parsed once."""


@dataclass(frozen=True, slots=True)
class ActionRunner:
    """Runs actions. `locate` returns the local path of a program or script that an action names."""

    executor: Executor
    sources: SourceResolver
    environment: Mapping[str, str]
    locate: Callable[[str], str]

    def execute_run(self, run: Run) -> bool:
        """Make one attempt at the run of an action; False if another process has claimed it, or it has to wait."""
        work = RunWork(ClaimRequest(), self._run_and_commit, self._compute_retry_delay)
        return self.executor.attempt_run(run.id, work) is not None

    def _compute_retry_delay(self, run: Run) -> float | None:
        """Return the back-off in seconds; None for an unreadable action, whose attempt fails and reports why."""
        try:
            retry = self._build_task(self.executor.catalog.datasets.read_action_spec(run.id))[1].retry
        except TidemillError:
            return None
        return compute_backoff(retry, run)

    def _run_and_commit(self, claim: RunClaim, log: RunLog, lease: Lease) -> ActionResult:
        spec = self.executor.catalog.datasets.read_action_spec(claim.run.id)
        action, task = self._build_task(spec)
        self._check_unchanged(spec, action, task)
        self.executor.catalog.runs.mark_running(claim.run.id, claim.run.fencing_token)
        timer = WorkTimer()
        directory = f"{claim.directory}/{OUTPUT}"
        staged = self.executor.store.stage_directory(directory)
        target = WriteTarget(action.name, BlockKind.BASE, staged, None, Append())
        views = {p.name: d.to_snapshot(p.name) for p, d in zip(action.parents, spec.inputs, strict=True)}
        command = self._resolve_command(action, task)
        try:
            schemas = supervise_task(self.executor.engine, claim, lease, command, views, {OUTPUT: target}, log)
        except RunKilled:
            raise
        except TidemillError as error:
            self._report_damage(spec, error)
            raise
        files = self.executor.store.publish_files(directory, target.receipt.rows)
        log.write_line(f"{action.name}: {sum(f.rows for f in files)} rows")
        result = ActionResult(schemas[OUTPUT], files, timer.elapsed_seconds, log.text)
        self.executor.catalog.datasets.commit(claim, result)
        return result

    def _build_task(self, spec: ActionSpec) -> tuple[Action, Task]:
        workflow = _workflow(json.dumps(spec.document))
        action = next(a for a in workflow.actions if a.id == spec.key)
        return action, build_task(action, self.sources)

    def _check_unchanged(self, spec: ActionSpec, action: Action, task: Task) -> None:
        """Raise `RunFailed` if the action changed since its submission: its result would get the wrong identity."""
        description = describe_output(to_canonical_task(task), OUTPUT, [], self.environment)
        before, after = ({k: v for k, v in d.items() if k not in _NOT_CODE} for d in (spec.description, description))
        if before != after:
            changes = ", ".join(d.part for d in diff_descriptions(before, after))
            raise RunFailed(
                f"action {action.id} ({action.name}) changed since it was submitted: {changes}; submit it again"
            )

    def _resolve_command(self, action: Action, task: Task) -> Task:
        """Replace programs and files by their paths, and set the environment variables that the action depends on."""
        code = task.variant.code
        if not isinstance(code, Command):
            return task
        work = action.work  # its files are those of the project, or a program next to Python
        files = {code.argv[0], work.script} if isinstance(work, Script) else set(code.fingerprint["files"])
        argv = tuple(self.locate(a) if a in files else a for a in code.argv)
        env = {name: self.environment[name] for name in action.environment if name in self.environment}
        return replace(task, variants=(replace(task.variant, code=replace(code, argv=argv, env=env)),))

    def _report_damage(self, spec: ActionSpec, error: TidemillError) -> None:
        """Raise `BlockDamaged` if an input's files are damaged, and mark it as lost, so that it is recomputed."""
        for dataset in spec.inputs:
            try:
                self.executor.store.check_files(dataset.files)
            except BlockDamaged as damage:
                self.executor.catalog.datasets.mark_lost(dataset.identity)
                raise BlockDamaged(
                    f"its input {dataset.workflow}/{dataset.name} is lost ({damage}); "
                    "submit the workflow again to recompute it"
                ) from error
