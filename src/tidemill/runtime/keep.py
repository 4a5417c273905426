"""Keeping promises: running what the planner decides.

A plan is made of atomic runs, one a step. Each reads up to where the plan was made, so that what arrives meanwhile
waits for the next plan. A plan that is cut short leaves what its finished steps made, and the next one goes on from
there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tidemill.errors import ChannelBusy, Conflict, TidemillError
from tidemill.model.block import Block
from tidemill.model.change import Updates
from tidemill.model.flow import Binding
from tidemill.model.run import Demand, Outcome, Run
from tidemill.model.trigger import Lag
from tidemill.model.workflow import Workflow
from tidemill.plan.standing import Decision
from tidemill.ports import Progress
from tidemill.runtime.execute import Executor, Upto
from tidemill.runtime.outlook import Errand, Outlook

T = TypeVar("T")

AGAIN = 1.0
"""Seconds after which a run looks again whose plan somebody else's run stands in the way of."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """Keeps what is promised of a workflow's channels."""

    executor: Executor
    updates: Mapping[str, Updates]
    workflow: Workflow
    asynchronous: bool = True  # else a plan brings everything up to date
    incremental: bool = True

    def attempt(self, run: Run, binding: Binding) -> list[Block] | None:
        """One attempt at a run of a flow that writes promised channels; None if it has to wait, or nothing is to do."""
        outlook, decision = self._decided(binding, fresh=self._is_asked_for(run))
        began = time.monotonic()

        def own(errand: Errand, upto: Upto) -> list[Block] | None:
            return self.executor.attempt(run, errand.binding, self.updates, upto=upto, told=_told(decision))

        if not decision.steps:
            self._skip(run, decision)
            return None
        try:
            made = self._perform(outlook, decision, binding, own, cause=run.id)
        except (Conflict, ChannelBusy):
            self.executor.catalog.defer(run.id, AGAIN)
            return None
        except _StepFailed as failed:
            self._fail(run, failed)
            raise
        if made:
            self.executor.catalog.expect(binding.name, time.monotonic() - began)
        return made

    def run(self, binding: Binding, progress: Progress | None = None) -> tuple[Run, list[Block]]:
        """Bring a flow that writes promised channels, and what it derives from, up to all that has arrived."""
        outlook, decision = self._decided(binding, fresh=True)

        def own(errand: Errand, upto: Upto) -> tuple[Run, list[Block]]:
            told = _told(decision)
            return self.executor.flow(errand.binding, self.updates, progress, upto=upto, told=told)

        if not decision.steps:
            return self.executor.flow(binding, self.updates, progress, told=_told(decision))
        return self._perform(outlook, decision, binding, own)

    def decide(self, binding: Binding, *, fresh: bool) -> Decision:
        return self._decided(binding, fresh=fresh)[1]

    def _decided(self, binding: Binding, *, fresh: bool) -> tuple[Outlook, Decision]:
        """The decision for the first promised channel of the flow for which something is to do."""
        catalog = self.executor.catalog
        outlook = Outlook(catalog, self.updates, self.workflow, catalog.now(), incremental=self.incremental)
        lead = self._lead(binding)
        goals = [c.name for c in self.workflow.channels if c.name in binding.written and c.promise]
        everything = fresh or not self.asynchronous
        decisions = [outlook.decide(goal, lead=lead, fresh=everything) for goal in goals]
        return outlook, next((d for d in decisions if d.steps), decisions[0])

    def _perform(
        self,
        outlook: Outlook,
        decision: Decision,
        binding: Binding,
        own: Callable[[Errand, Upto], T],
        cause: int | None = None,
    ) -> T:
        """Run the steps, those before the flow's own first; that one, which is the last, by `own`."""
        made: dict[str, int] = {}
        *before, last = outlook.errands(decision)
        assert last.binding.name == binding.name, f"a plan for {decision.goal} must end with {binding.name}"
        for errand in before:
            for block in self._step(errand, _reading(errand, made), {} if cause is None else {"cause": cause}):
                made[block.channel] = max(block.seq, made.get(block.channel, 0))
        return own(last, _reading(last, made))

    def _step(self, errand: Errand, upto: Upto, told: Mapping[str, Any]) -> list[Block]:
        try:
            return self.executor.flow(errand.binding, self.updates, upto=upto, told=told)[1]
        except (Conflict, ChannelBusy):
            raise
        except TidemillError as error:
            raise _StepFailed(f"{errand.binding.name}, which it needs, failed: {error}") from error

    def _lead(self, binding: Binding) -> float:
        """How long before a promise would be broken its flow runs."""
        return max((t.lead for t in self.executor.catalog.triggers(binding.name)), default=0.0)

    def _is_asked_for(self, run: Run) -> bool:
        """Did somebody ask for the run, and not only a promise?"""
        fired = [f.trigger for f in self.executor.catalog.firings(run.subject) if f.run == run.id]
        return not fired or not all(isinstance(trigger, Lag) for trigger in fired)

    def _skip(self, run: Run, decision: Decision) -> None:
        """Finish a run for which nothing is to do."""
        claim = self.executor.catalog.claim(run.id, Demand(), owner=self.executor.owner, lease=self.executor.lease)
        self.executor.catalog.commit(claim, Outcome((), stats=_told(decision)))

    def _fail(self, run: Run, error: TidemillError) -> None:
        claim = self.executor.catalog.claim(run.id, Demand(), owner=self.executor.owner, lease=self.executor.lease)
        self.executor.catalog.fail(run.id, claim.run.fence, error=str(error))


def _reading(errand: Errand, made: Mapping[str, int]) -> Upto:
    """How far a step reads: what the plan made before it is there by now."""
    return {key: seq if key[1] in errand.stays else made.get(key[1], seq) for key, seq in errand.upto.items()}


class _StepFailed(TidemillError):
    """A step before a flow's own failed."""


def _told(decision: Decision) -> dict[str, Any]:
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
