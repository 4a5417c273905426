"""Runs flows as the planner decides: with freshness targets and without.

A plan consists of atomic runs: first those of other flows that the flow needs, then its own. Each reads up to the
positions at planning time, so data that arrives later waits for the next plan. A plan that is interrupted keeps the
results of its finished runs, and the next plan continues from them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidemill.errors import Conflict, RunFailed, TidemillError
from tidemill.model.block import Block
from tidemill.model.change import Updates
from tidemill.model.flow import BoundFlow
from tidemill.model.run import ClaimRequest, Run, RunClaim, RunOutcome
from tidemill.model.trigger import LagTrigger
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.catalog_state import PlanDecision
from tidemill.planner.refresh_mode import RefreshChoice
from tidemill.planner.workflow_graph import select_upstream
from tidemill.ports.engine import Progress
from tidemill.runtime.freshness.catch_up import CatchUpLimit, limit_plan
from tidemill.runtime.freshness.planning import PlannedRun, PlanningContext, RunPlan
from tidemill.runtime.runs.execution import Executor, ReadPositions, RunWork
from tidemill.runtime.runs.leases import Lease
from tidemill.runtime.runs.log import RunLog
from tidemill.runtime.runs.supervision import WorkTimer

REPLAN_SECONDS = 60.0
"""Seconds until planning is retried after no plan was found."""

CONFLICT_RETRY_SECONDS = 1.0
"""Seconds until a run is retried whose plan conflicts with another run."""

ChoiceListener = Callable[[Mapping[str, RefreshChoice]], None]


@dataclass(frozen=True, slots=True)
class FreshnessController:
    """Plans and executes the runs of a workflow's flows."""

    executor: Executor
    updates: Mapping[str, Updates]
    workflow: WorkflowSpec
    asynchronous: bool = True  # False: a plan refreshes everything to the newest data
    incremental: bool = True
    strict: bool = False

    def execute_run(
        self, run: Run, binding: BoundFlow, limit: CatchUpLimit | None = None, *, variant: str | None = None
    ) -> list[Block] | None:
        """Make one attempt at a run; None if it has to wait, or nothing is due. Data beyond `limit` are due later."""
        timer = WorkTimer()
        plan = limit_plan(self.executor.catalog, self._plan_run(run, binding, variant), limit)
        prepared = self._run_prerequisites(run, plan)
        if prepared is None:
            return None
        fencing_token, written = prepared
        work = self._build_work(binding, plan, written)
        blocks = self.executor.attempt_run(run.id, work, fencing_token=fencing_token)
        if blocks is None or plan.own_run is None:
            return None
        if plan.decision is not None:
            self.executor.catalog.triggers.set_freshness_lead(binding.name, timer.elapsed_seconds)
        return blocks

    def run_flow(
        self,
        binding: BoundFlow,
        progress: Progress | None = None,
        *,
        variant: str | None = None,
        on_choice: ChoiceListener = lambda _: None,
    ) -> tuple[Run, list[Block]]:
        """Run a flow to its end; with freshness targets, refresh its upstream tables as well, to all data.

        `on_choice` is called before the run with the chosen variant and the reason for each declared table.
        """
        context = self._build_context(binding)
        plan = context.plan_run(binding, fresh=True, variant=variant)
        on_choice(plan.choices)
        written = self._run_planned(plan.prerequisites, {})
        own_run = plan.own_run or PlannedRun(context.choose_variants(binding)[0])
        upto, details = _compute_read_positions(own_run, written), _describe_plan(plan)
        return self.executor.run_flow(own_run.binding, self.updates, progress, upto=upto, details=details)

    def _build_context(self, binding: BoundFlow) -> PlanningContext:
        workflow = select_upstream(self.workflow, binding)
        return PlanningContext(self.executor.catalog, self.updates, workflow, self.incremental, self.strict)

    def _plan_run(self, run: Run, binding: BoundFlow, variant: str | None) -> RunPlan:
        """Plan a requested run; if that fails, the run fails."""
        context = self._build_context(binding)
        try:
            if variant is not None or not context.find_goals(binding):
                return context.plan_run(binding, variant=variant)
            fresh = not self.asynchronous or self._is_requested(run)
            triggers = self.executor.catalog.triggers.list(binding.name)
            return context.plan_run(binding, lead=max((t.lead_seconds for t in triggers), default=0.0), fresh=fresh)
        except TidemillError:
            with self.executor.hold_lease(self.executor.take_run(run.id), RunLog()):
                raise

    def _run_prerequisites(self, run: Run, plan: RunPlan) -> tuple[int | None, Mapping[str, int]] | None:
        """Run all runs of a plan but its own; return the fencing token of this run, and the positions they wrote.

        The run is acquired before, so that no other server executes the same plan; without prerequisites it is not.
        None if another server has it, or a prerequisite conflicts with another run: then it is retried soon.
        """
        if not plan.prerequisites:
            return None, {}
        try:
            acquired = self.executor.take_run(run.id)
        except Conflict:
            return None
        with self.executor.hold_lease(acquired, RunLog()):
            try:
                return acquired.fencing_token, self._run_planned(plan.prerequisites, {"cause": run.id})
            except Conflict:
                catalog = self.executor.catalog
                catalog.runs.release(run.id, acquired.fencing_token, seconds=CONFLICT_RETRY_SECONDS)
                return None

    def _run_planned(self, planned_runs: tuple[PlannedRun, ...], details: Mapping[str, Any]) -> dict[str, int]:
        """Execute runs in order, and return the positions that they wrote."""
        written: dict[str, int] = {}
        for planned_run in planned_runs:
            for block in self._run_step(planned_run, _compute_read_positions(planned_run, written), details):
                written[block.channel] = max(block.seq, written.get(block.channel, 0))
        return written

    def _build_work(self, binding: BoundFlow, plan: RunPlan, written: Mapping[str, int]) -> RunWork[list[Block]]:
        """Build the work of a plan's own run; without one nothing is due, and an empty outcome is committed."""
        details, runs = _describe_plan(plan), self.executor.catalog.runs
        work = RunWork(ClaimRequest(), lambda claim, _log, _lease: runs.commit(claim, RunOutcome((), stats=details)))
        if plan.own_run is not None:
            upto, oldest_unread = _compute_read_positions(plan.own_run, written), plan.oldest_unread
            work = self.executor.build_flow_work(
                plan.own_run.binding, self.updates, upto=upto, details=details, oldest_unread=oldest_unread
            )

        def commit(claim: RunClaim, log: RunLog, lease: Lease) -> list[Block]:
            self._schedule_reminder(binding, plan.decision)
            return work.commit(claim, log, lease)

        return replace(work, commit=commit)

    def _run_step(self, planned_run: PlannedRun, positions: ReadPositions, details: Mapping[str, Any]) -> list[Block]:
        try:
            return self.executor.run_flow(planned_run.binding, self.updates, upto=positions, details=details)[1]
        except Conflict:
            raise
        except TidemillError as error:
            if error.retry_in is not None:  # the step is not at fault
                raise
            raise RunFailed(f"{planned_run.binding.name}, which it needs, failed: {error}") from error

    def _is_requested(self, run: Run) -> bool:
        """Tell whether the run was requested, and neither triggered by a target nor left by a catch-up limit."""
        fired = [f.trigger for f in self.executor.catalog.triggers.list_firings(run.subject) if f.run == run.id]
        return not all(isinstance(trigger, LagTrigger) for trigger in fired) if fired else run.due is None

    def _schedule_reminder(self, binding: BoundFlow, decision: PlanDecision | None) -> None:
        """Set the flow's next deadline: work that this plan defers might otherwise never become due."""
        if decision is None:
            return
        now = self.executor.catalog.read_time()
        if decision.result is not None and not decision.steps:
            self.executor.catalog.triggers.set_freshness_deadline(binding.name, now + REPLAN_SECONDS)
        elif decision.next_due is not None:
            self.executor.catalog.triggers.set_freshness_deadline(binding.name, decision.next_due / 1_000_000)


def _compute_read_positions(planned_run: PlannedRun, written: Mapping[str, int]) -> ReadPositions:
    """Return the positions up to which a step reads, including the blocks that earlier steps of the plan wrote."""
    return {
        key: seq if key[1] in planned_run.unmoved_channels else written.get(key[1], seq)
        for key, seq in planned_run.positions.items()
    }


def _describe_plan(plan: RunPlan) -> dict[str, Any]:
    """Describe a plan for the record of its run; without targets, the run's statistics tell the variants."""
    pending = {"pending_blocks": plan.left_blocks} if plan.left_blocks else {}
    return pending if plan.decision is None else {**pending, "plan": _describe_decision(plan.decision)}


def _describe_decision(decision: PlanDecision) -> dict[str, Any]:
    if decision.result is None:
        return {"reason": "nothing is due", "steps": []}
    if decision.result.plan is None:
        return {"reason": "no plan would meet every freshness target", "steps": []}
    steps = [{"task": s.task, "variant": s.variant, "seconds": round(s.cost, 3)} for s in decision.steps]
    rejected = [
        {"task": r.task, "variant": r.variant, "reason": str(r.reason), "seconds": r.cost and round(r.cost, 3)}
        for r in decision.result.rejected
    ]
    return {"goal": decision.goal, "steps": steps, "rejected": rejected[:MAX_RECORDED_ALTERNATIVES]}


MAX_RECORDED_ALTERNATIVES = 10
"""Maximum number of rejected alternatives that are recorded with a run."""
