"""Running actions: what the run of one reads, makes and leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tidemill.api.documents import OUTPUT, Sources, canonical, parsed, task_of
from tidemill.errors import BlockDamaged, Conflict, RunFailed, RunKilled, TidemillError
from tidemill.model.action import Action, Script, Work
from tidemill.model.block import Kind
from tidemill.model.change import Append
from tidemill.model.description import described, differences
from tidemill.model.run import Claim, Demand, Run
from tidemill.model.schema import Schema
from tidemill.model.submission import Errand, Product
from tidemill.model.task import Command, Task
from tidemill.model.view import View
from tidemill.ports.engine import Target
from tidemill.runtime.oneshot.dataset_catalog import Ledger
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.flow import tag_of
from tidemill.runtime.runs.lease import Lease
from tidemill.runtime.runs.log import RunLog
from tidemill.runtime.runs.supervision import Timer, supervised

_NOT_CODE = ("inputs", "generation", "collision")
"""Parts of a description that no look at the action's code can change."""


_workflow = lru_cache(maxsize=16)(parsed)
"""The actions of a workflow are run one after the other: it is read once."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Runs actions. `locate` says where a program or script that an action names is on this machine."""

    executor: Executor
    ledger: Ledger
    sources: Sources
    surroundings: Mapping[str, str]
    locate: Callable[[str], str]

    def attempt(self, run: Run) -> bool:
        """One attempt at the run of an action; False if somebody else has it, or it has to wait."""
        try:
            claim = self.executor.claim(run.id, Demand())
        except Conflict:
            return False
        self.executor.once(claim, self._commit, retry_in=self._retry_in(claim))
        return True

    def _retry_in(self, claim: Claim) -> float | None:
        """What cannot even be read fails in the attempt itself, where it is said."""
        try:
            retry = self._task(self.ledger.errand(claim.run.id))[1].retry
        except TidemillError:
            return None
        return retry.wait(claim.run.attempt - claim.run.lost)

    def _commit(self, claim: Claim, log: RunLog, lease: Lease) -> None:
        errand = self.ledger.errand(claim.run.id)
        action, task = self._task(errand)
        self._check_same(errand, action, task)
        self.executor.catalog.began(claim.run.id, claim.run.fence)
        timer = Timer(self.executor.engine)
        directory = f"{claim.directory}/{OUTPUT}"
        target = Target(action.name, Kind.BASE, self.executor.store.stage(directory), None, Append())
        views = {p.name: d.view(p.name) for p, d in zip(action.parents, errand.inputs, strict=True)}
        try:
            schema = self._invoke(claim, self._runnable(action, task), views, target, log, lease)
        except RunKilled:
            raise
        except TidemillError as error:
            self._blame_damage(errand, error)
            raise
        files = self.executor.store.publish(directory, target.receipt.rows)
        log.say(f"{action.name}: {sum(f.rows for f in files)} rows")
        self.ledger.made(claim, Product(schema, files, timer.seconds, log.text))

    def _task(self, errand: Errand) -> tuple[Action, Task]:
        workflow = _workflow(json.dumps(errand.document))
        action = next(a for a in workflow.actions if a.id == errand.key)
        return action, task_of(action, self.sources)

    def _check_same(self, errand: Errand, action: Action, task: Task) -> None:
        """What is run must be what was submitted, or its result would be taken for something that it is not."""
        now = described(canonical(task), OUTPUT, [], self.surroundings)
        before, after = ({k: v for k, v in d.items() if k not in _NOT_CODE} for d in (errand.description, now))
        if before != after:
            what = ", ".join(d.part for d in differences(before, after))
            raise RunFailed(
                f"action {action.id} ({action.name}) is no longer what was submitted: {what}; submit it again"
            )

    def _runnable(self, action: Action, task: Task) -> Task:
        """Programs and files by where they are, and with the variables that the action depends on."""
        code = task.variant.code
        if not isinstance(code, Command):
            return task
        named = _files(action.work, code)
        argv = tuple(self.locate(a) if a in named else a for a in code.argv)
        env = {name: self.surroundings[name] for name in action.environment if name in self.surroundings}
        return replace(task, variants=(replace(task.variant, code=replace(code, argv=argv, env=env)),))

    def _invoke(
        self, claim: Claim, task: Task, views: Mapping[str, View], target: Target, log: RunLog, lease: Lease
    ) -> Schema:
        engine, tag = self.executor.engine, tag_of(claim.run)
        schemas = supervised(
            lambda: engine.invoke(task, views, {OUTPUT: target}, tag=tag, log=log, now=claim.run.fence),
            limit=task.time_limit,
            lost=lease.lost,
            stop=lambda: engine.cancel(tag),
        )
        return schemas[OUTPUT]

    def _blame_damage(self, errand: Errand, error: TidemillError) -> None:
        """If an input's files are damaged, that is the error to report; and it will be made again when next wanted."""
        for dataset in errand.inputs:
            try:
                self.executor.store.check(dataset.files)
            except BlockDamaged as damage:
                self.ledger.lost(dataset.identity)
                raise BlockDamaged(
                    f"the result of {dataset.workflow}/{dataset.name}, which it reads, is lost ({damage}); "
                    "submit the workflow again, and it is made again"
                ) from error


def _files(work: Work, code: Command) -> set[str]:
    """Arguments of a program that are files of the project, or a program beside Python."""
    return {code.argv[0], work.script} if isinstance(work, Script) else set(code.made_of["files"])
