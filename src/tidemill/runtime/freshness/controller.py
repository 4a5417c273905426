"""Keeping promises: running what the planner decides.

A plan is made of atomic runs, one a step. Each reads up to where the plan was made, so that what arrives meanwhile
waits for the next plan. A plan that is cut short leaves what its finished steps made, and the next one goes on from
there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.errors import ChannelBusy, Conflict, RunFailed, TidemillError
from tidemill.model.block import Block
from tidemill.model.change import Updates
from tidemill.model.flow import BoundFlow
from tidemill.model.run import ClaimRequest, Run, RunOutcome
from tidemill.model.trigger import LagTrigger
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.catalog_state import PlanDecision
from tidemill.ports.engine import Progress
from tidemill.runtime.freshness.planning import PlannedRun, PlanningContext
from tidemill.runtime.runs.execution import Executor, Upto
from tidemill.runtime.runs.log import RunLog
from tidemill.runtime.runs.supervision import WorkTimer

LATER = 60.0
"""Seconds after which a plan is looked for again where there was none."""

AGAIN = 1.0
"""Seconds after which a run looks again whose plan somebody else's run stands in the way of."""


@dataclass(frozen=True, slots=True)
class FreshnessController:
    """Keeps what is promised of a workflow's channels."""

    executor: Executor
    updates: Mapping[str, Updates]
    workflow: WorkflowSpec
    asynchronous: bool = True  # else a plan brings everything up to date
    incremental: bool = True

    def attempt_run(self, run: Run, binding: BoundFlow) -> list[Block] | None:
        """One attempt at a run of a flow that writes promised channels; None if it has to wait, or nothing is to do.

        The run is taken before anything is planned, so that no other server does the same, and claimed for its own
        step when those before it are done.
        """
        executor, timer = self.executor, WorkTimer(self.executor.engine)
        try:
            taken = executor.take_run(run.id)
        except Conflict:
            return None
        with executor.hold_lease(taken, RunLog()):
            outlook, decision = self._plan_refresh(binding, fresh=self._is_requested(run))
            try:
                last, upto = self._run_prerequisites(outlook, decision, cause=run.id)
            except (Conflict, ChannelBusy):
                executor.catalog.release_run(run.id, taken.fence, seconds=AGAIN)
                return None
        self._schedule_reminder(binding, decision)
        if last is None:
            self._finish_empty_run(taken, decision)
            return None
        told = _describe_decision(decision)
        made = executor.attempt_run(run, last.binding, self.updates, upto=upto, told=told, fence=taken.fence)
        if made is not None:
            executor.catalog.set_freshness_lead(binding.name, timer.elapsed_seconds)
        return made

    def run_flow(self, binding: BoundFlow, progress: Progress | None = None) -> tuple[Run, list[Block]]:
        """Bring a flow that writes promised channels, and what it derives from, up to all that has arrived."""
        outlook, decision = self._plan_refresh(binding, fresh=True)
        last, upto = self._run_prerequisites(outlook, decision)
        own = binding if last is None else last.binding
        return self.executor.run_flow(own, self.updates, progress, upto=upto, told=_describe_decision(decision))

    def decide_refresh(self, binding: BoundFlow, *, fresh: bool) -> PlanDecision:
        return self._plan_refresh(binding, fresh=fresh)[1]

    def _plan_refresh(self, binding: BoundFlow, *, fresh: bool) -> tuple[PlanningContext, PlanDecision]:
        """The decision for the first promised channel of the flow for which something is to do."""
        catalog = self.executor.catalog
        outlook = PlanningContext(
            catalog, self.updates, self.workflow, catalog.read_time(), incremental=self.incremental
        )
        lead = self._get_lead_time(binding)
        goals = [c.name for c in self.workflow.channels if c.name in binding.written_channels and c.promise]
        everything = fresh or not self.asynchronous
        decisions = [outlook.decide_refresh(goal, lead=lead, fresh=everything) for goal in goals]
        return outlook, next((d for d in decisions if d.steps), decisions[0])

    def _run_prerequisites(
        self, outlook: PlanningContext, decision: PlanDecision, cause: int | None = None
    ) -> tuple[PlannedRun | None, Upto]:
        """Run all steps but the last, which is the flow's own; that one, and up to where it reads. None: no plan."""
        made: dict[str, int] = {}
        told = {} if cause is None else {"cause": cause}
        errands = outlook.build_planned_runs(decision)
        for errand in errands[:-1]:
            for block in self._run_step(errand, _compute_read_positions(errand, made), told):
                made[block.channel] = max(block.seq, made.get(block.channel, 0))
        return (errands[-1], _compute_read_positions(errands[-1], made)) if errands else (None, {})

    def _run_step(self, errand: PlannedRun, upto: Upto, told: Mapping[str, Any]) -> list[Block]:
        try:
            return self.executor.run_flow(errand.binding, self.updates, upto=upto, told=told)[1]
        except (Conflict, ChannelBusy):
            raise
        except TidemillError as error:
            if error.retry_in is not None:  # no fault of the step's
                raise
            raise RunFailed(f"{errand.binding.name}, which it needs, failed: {error}") from error

    def _get_lead_time(self, binding: BoundFlow) -> float:
        """How long before a promise would be broken its flow runs."""
        return max((t.lead for t in self.executor.catalog.list_triggers(binding.name)), default=0.0)

    def _is_requested(self, run: Run) -> bool:
        """Did somebody ask for the run, and not only a promise?"""
        fired = [f.trigger for f in self.executor.catalog.list_firings(run.subject) if f.run == run.id]
        return not fired or not all(isinstance(trigger, LagTrigger) for trigger in fired)

    def _schedule_reminder(self, binding: BoundFlow, decision: PlanDecision) -> None:
        """What comes next may not make the flow due in time: what this plan leaves for later may never fire again.

        Where there is nothing to run though something is due, a plan is looked for again after a while.
        """
        now = self.executor.catalog.read_time()
        if decision.answer is not None and not decision.steps:
            self.executor.catalog.set_freshness_deadline(binding.name, now + LATER)
        elif decision.again is not None:
            self.executor.catalog.set_freshness_deadline(binding.name, decision.again / 1_000_000)

    def _finish_empty_run(self, taken: Run, decision: PlanDecision) -> None:
        """End a run for which nothing is to do."""
        claim = self.executor.claim_run(taken.id, ClaimRequest(), fence=taken.fence)
        self.executor.run_once(
            claim,
            lambda claim, _log, _lease: self.executor.catalog.commit_run(
                claim, RunOutcome((), stats=_describe_decision(decision))
            ),
        )


def _compute_read_positions(errand: PlannedRun, made: Mapping[str, int]) -> Upto:
    """How far a step reads: what the plan made before it is there by now."""
    return {key: seq if key[1] in errand.stays else made.get(key[1], seq) for key, seq in errand.upto.items()}


def _describe_decision(decision: PlanDecision) -> dict[str, Any]:
    """What is remembered of a decision with its run."""
    if decision.answer is None:
        return {"plan": {"why": "nothing is due", "steps": []}}
    if decision.answer.plan is None:
        return {"plan": {"why": "no plan would keep every promise", "steps": []}}
    steps = [{"task": s.task, "variant": s.variant, "seconds": round(s.cost, 3)} for s in decision.steps]
    rejected = [
        {"task": r.task, "variant": r.variant, "reason": str(r.reason), "seconds": r.cost and round(r.cost, 3)}
        for r in decision.answer.rejected
    ]
    return {"plan": {"goal": decision.goal, "steps": steps, "rejected": rejected[:SHOWN]}}


SHOWN = 10
"""Alternatives that are remembered with a run."""
