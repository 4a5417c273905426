"""Meets freshness targets by running the planner's decisions.

A plan consists of atomic runs, one per step. Each reads up to the positions at planning time, so data that arrives
later waits for the next plan. A plan that is interrupted keeps the results of its finished steps, and the next plan
continues from them.
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
from tidemill.runtime.runs.execution import Executor, ReadPositions
from tidemill.runtime.runs.log import RunLog
from tidemill.runtime.runs.supervision import WorkTimer

REPLAN_SECONDS = 60.0
"""Seconds until planning is retried after no plan was found."""

CONFLICT_RETRY_SECONDS = 1.0
"""Seconds until a run is retried whose plan conflicts with another run."""


@dataclass(frozen=True, slots=True)
class FreshnessController:
    """Meets the freshness targets of a workflow's channels."""

    executor: Executor
    updates: Mapping[str, Updates]
    workflow: WorkflowSpec
    asynchronous: bool = True  # False: a plan refreshes everything to the newest data
    incremental: bool = True

    def attempt_run(self, run: Run, binding: BoundFlow) -> list[Block] | None:
        """Make one attempt at a run of a flow with freshness targets; None if it has to wait, or nothing is due.

        The run is acquired before planning, so that no other server plans it as well, and claimed for its own step when
        the steps before it are finished.
        """
        executor, timer = self.executor, WorkTimer(self.executor.engine)
        try:
            acquired = executor.take_run(run.id)
        except Conflict:
            return None
        with executor.hold_lease(acquired, RunLog()):
            context, decision = self._plan_refresh(binding, fresh=self._is_requested(run))
            try:
                final_run, positions = self._run_prerequisites(context, decision, cause=run.id)
            except (Conflict, ChannelBusy):
                executor.catalog.release_run(run.id, acquired.fencing_token, seconds=CONFLICT_RETRY_SECONDS)
                return None
        self._schedule_reminder(binding, decision)
        if final_run is None:
            self._finish_empty_run(acquired, decision)
            return None
        details = _describe_decision(decision)
        blocks = executor.attempt_run(
            run, final_run.binding, self.updates, upto=positions, details=details, fencing_token=acquired.fencing_token
        )
        if blocks is not None:
            executor.catalog.set_freshness_lead(binding.name, timer.elapsed_seconds)
        return blocks

    def run_flow(self, binding: BoundFlow, progress: Progress | None = None) -> tuple[Run, list[Block]]:
        """Refresh a flow with freshness targets, and its upstream tables, to all data that has arrived."""
        context, decision = self._plan_refresh(binding, fresh=True)
        final_run, positions = self._run_prerequisites(context, decision)
        final_binding = binding if final_run is None else final_run.binding
        return self.executor.run_flow(
            final_binding, self.updates, progress, upto=positions, details=_describe_decision(decision)
        )

    def decide_refresh(self, binding: BoundFlow, *, fresh: bool) -> PlanDecision:
        return self._plan_refresh(binding, fresh=fresh)[1]

    def _plan_refresh(self, binding: BoundFlow, *, fresh: bool) -> tuple[PlanningContext, PlanDecision]:
        """Return the decision for the first channel of the flow that is due."""
        catalog = self.executor.catalog
        context = PlanningContext(
            catalog, self.updates, self.workflow, catalog.read_time(), incremental=self.incremental
        )
        lead = self._get_lead_time(binding)
        goals = [c.name for c in self.workflow.channels if c.name in binding.written_channels and c.freshness_target]
        everything = fresh or not self.asynchronous
        decisions = [context.decide_refresh(goal, lead=lead, fresh=everything) for goal in goals]
        return context, next((d for d in decisions if d.steps), decisions[0])

    def _run_prerequisites(
        self, context: PlanningContext, decision: PlanDecision, cause: int | None = None
    ) -> tuple[PlannedRun | None, ReadPositions]:
        """Run all steps but the last; return the last, which is the flow's own, and its positions. None: no plan."""
        written: dict[str, int] = {}
        details = {} if cause is None else {"cause": cause}
        planned_runs = context.build_planned_runs(decision)
        for planned_run in planned_runs[:-1]:
            for block in self._run_step(planned_run, _compute_read_positions(planned_run, written), details):
                written[block.channel] = max(block.seq, written.get(block.channel, 0))
        return (planned_runs[-1], _compute_read_positions(planned_runs[-1], written)) if planned_runs else (None, {})

    def _run_step(self, planned_run: PlannedRun, positions: ReadPositions, details: Mapping[str, Any]) -> list[Block]:
        try:
            return self.executor.run_flow(planned_run.binding, self.updates, upto=positions, details=details)[1]
        except (Conflict, ChannelBusy):
            raise
        except TidemillError as error:
            if error.retry_in is not None:  # the step is not at fault
                raise
            raise RunFailed(f"{planned_run.binding.name}, which it needs, failed: {error}") from error

    def _get_lead_time(self, binding: BoundFlow) -> float:
        """Return the seconds by which a flow's run starts before a target would be missed."""
        return max((t.lead_seconds for t in self.executor.catalog.list_triggers(binding.name)), default=0.0)

    def _is_requested(self, run: Run) -> bool:
        """Tell whether the run was requested, and not only triggered by a freshness target."""
        fired = [f.trigger for f in self.executor.catalog.list_firings(run.subject) if f.run == run.id]
        return not fired or not all(isinstance(trigger, LagTrigger) for trigger in fired)

    def _schedule_reminder(self, binding: BoundFlow, decision: PlanDecision) -> None:
        """Set the flow's next deadline: work that this plan defers might otherwise never become due.

        If something is due but there is no plan for it, planning is retried later.
        """
        now = self.executor.catalog.read_time()
        if decision.result is not None and not decision.steps:
            self.executor.catalog.set_freshness_deadline(binding.name, now + REPLAN_SECONDS)
        elif decision.next_due is not None:
            self.executor.catalog.set_freshness_deadline(binding.name, decision.next_due / 1_000_000)

    def _finish_empty_run(self, acquired: Run, decision: PlanDecision) -> None:
        """Finish a run for which nothing is due."""
        claim = self.executor.claim_run(acquired.id, ClaimRequest(), fencing_token=acquired.fencing_token)
        self.executor.run_once(
            claim,
            lambda claim, _log, _lease: self.executor.catalog.commit_run(
                claim, RunOutcome((), stats=_describe_decision(decision))
            ),
        )


def _compute_read_positions(planned_run: PlannedRun, written: Mapping[str, int]) -> ReadPositions:
    """Return the positions up to which a step reads, including the blocks that earlier steps of the plan wrote."""
    return {
        key: seq if key[1] in planned_run.unmoved_channels else written.get(key[1], seq)
        for key, seq in planned_run.positions.items()
    }


def _describe_decision(decision: PlanDecision) -> dict[str, Any]:
    """Describe a decision for the record of its run."""
    if decision.result is None:
        return {"plan": {"reason": "nothing is due", "steps": []}}
    if decision.result.plan is None:
        return {"plan": {"reason": "no plan would meet every freshness target", "steps": []}}
    steps = [{"task": s.task, "variant": s.variant, "seconds": round(s.cost, 3)} for s in decision.steps]
    rejected = [
        {"task": r.task, "variant": r.variant, "reason": str(r.reason), "seconds": r.cost and round(r.cost, 3)}
        for r in decision.result.rejected
    ]
    return {"plan": {"goal": decision.goal, "steps": steps, "rejected": rejected[:MAX_RECORDED_ALTERNATIVES]}}


MAX_RECORDED_ALTERNATIVES = 10
"""Maximum number of rejected alternatives that are recorded with a run."""
