"""The dynamic program: Dijkstra's algorithm with blocks for vertices and steps for edges.

The cheapest block that can be had is taken from a queue; everything that can be made of it, together with blocks that
were taken before, is put into the queue; the first block that would do as the goal is the cheapest. A block that is
polled can no longer be had for less, because no step has a negative cost.

A plan costs what its steps cost, each paid once. The cheapest way to have a block is found on its own, though: a dearer
way whose steps something else needs as well is not considered. So the cost found lies between the best of all plans
and the best if every use were paid for, and is the best where no two needs share steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.bounds import ChannelLimit
from tidemill.planner.candidates import Candidate, Filling, StepRegistry
from tidemill.planner.expansion import CandidateExpansion, Offer, Uses
from tidemill.planner.graph import BlockNode
from tidemill.planner.graph_index import BlockProducer
from tidemill.planner.pruning import BlockPruner
from tidemill.planner.search_rules import SearchRules
from tidemill.planner.steps import CostFunction, Plan, PlanStep, RejectedBlock, RejectionReason
from tidemill.planner.vector import Ends, PlanningClock


class PlanSearch:
    """One search for one goal; `limits` has the channels that are looked at, `uses` who can take their blocks."""

    def __init__(
        self,
        stock: BlockInventory,
        goal: str,
        limits: Mapping[str, ChannelLimit],
        uses: Uses,
        clock: PlanningClock,
        costs: CostFunction,
        rules: SearchRules,
    ) -> None:
        self._stock, self._goal, self._costs, self._chained = stock, goal, costs, rules.chains
        self._channels = limits.keys()
        self._judge = BlockPruner(stock, goal, limits, clock, rules)
        self._expansion = CandidateExpansion(stock.layout, uses, limits)
        self._best: dict[BlockNode, Candidate] = {}
        self._queue: list[tuple[float, int, Candidate]] = []
        self._steps = StepRegistry()
        self._rejected: list[RejectedBlock] = []
        self.generated = 0

    def find_plan(self) -> Plan | None:
        """The cheapest plan."""
        chosen = self._load_existing()
        while chosen is None and self._queue:
            found = heappop(self._queue)[2]
            if found.dropped or (found.outdone and not self._is_still_support(found)):
                continue
            if found.accepted:
                chosen = found
            else:
                self._expand_candidate(found)
        return None if chosen is None else self._build_plan(chosen)

    def list_single_steps(self) -> list[Plan]:
        """All plans of one step on what exists."""
        delivered = self._load_existing()
        if delivered is not None:
            return [self._build_plan(delivered)]
        while self._queue and self._queue[0][2].is_existing:  # chains are free, and as good as what exists
            self._expand_candidate(heappop(self._queue)[2])
        return [self._build_plan(found) for _, _, found in sorted(self._queue, key=lambda entry: entry[:2])]

    @property
    def pruned_counts(self) -> Mapping[str, int]:
        return self._judge.pruned

    @property
    def rejected_goals(self) -> tuple[RejectedBlock, ...]:
        """The goals that were weighed and not chosen."""
        return (*self._rejected, *(self._reject_queued(found) for _, _, found in self._queue if found.accepted))

    def _reject_queued(self, found: Candidate) -> RejectedBlock:
        maker = self._steps.list_steps(found)[-1]
        reason = RejectionReason.OUTDONE if found.outdone and not found.dropped else RejectionReason.DEAR
        return RejectedBlock(maker.task, maker.variant, found.block, reason, found.cost)

    def _build_plan(self, found: Candidate) -> Plan:
        delivers = found.block if found.accepted else None
        return Plan(self._goal, self._steps.list_steps(found), delivers, found.cost)

    def _load_existing(self) -> Candidate | None:
        """Start from all that exists; a block that would do as the goal already needs no plan."""
        blocks = [
            self._judge.evaluate_existing(b)
            for c in self._channels
            for b in self._stock.list_blocks(c, chained=self._chained)
        ]
        ready = next((f for f in blocks if f.accepted), None)
        if ready is None:
            self._best = {f.block: f for f in blocks}
            self._expand_existing(blocks)
        return ready

    def _expand_existing(self, blocks: list[Candidate]) -> None:
        """Expand what leads on; the rest is there for it to be combined with."""
        leading = []
        for found in blocks:
            if self._judge.can_lead_on(found):
                leading.append(found)
            else:
                self._expansion.add_candidate(found)
        for found in leading:
            self._expand_candidate(found)

    def _expand_candidate(self, found: Candidate) -> None:
        for offer in self._expansion.list_offers(found):
            self._weigh_offer(offer)

    def _weigh_offer(self, offer: Offer) -> None:
        """Queue what is worth having of what can be made."""
        parts, blocks, by = offer
        made = tuple([part for part in parts if not part.is_existing])
        cost = self._steps.compute_cost(made)
        wanted = [self._build_candidate(b, cost, by) if b.channel in self._channels else None for b in blocks]
        if not any(wanted):
            return
        number = None
        if by is not None:
            step = self._build_step(parts, blocks, by)
            cost += step.cost
            number = self._steps.add_step(step)
        for found in wanted:
            if found is not None:
                found.cost, found.parts, found.step = cost, made, number
                self._queue_candidate(found)

    def _build_step(self, parts: Filling, blocks: tuple[BlockNode, ...], by: BlockProducer) -> PlanStep:
        """The step, priced; from now on it is known how large its blocks would be."""
        reads = tuple([part.block for part in parts])
        cost, sizes = self._costs(by.task, by.variant, reads)
        for block, size in zip(blocks, sizes, strict=True):
            block.size = size
        return PlanStep(by.task, by.variant, reads, blocks, cost)

    def _queue_candidate(self, found: Candidate) -> None:
        before = self._best.get(found.block)
        if before is not None:
            if before.cost <= found.cost:
                return
            before.dropped = True
        self._best[found.block] = found
        self._judge.record_candidate(found)
        self.generated += 1
        heappush(self._queue, (found.cost, self.generated, found))

    def _build_candidate(self, block: BlockNode, cost: float, by: BlockProducer | None) -> Candidate | None:
        """A block that is worth making, as far as can be said before its cost is known."""
        known = self._best.get(block)
        if known is not None and known.cost <= cost:
            return None
        judge, ends = self._judge, self._judge.ends(block.channel, block.target)
        fit = judge.is_fit(block, ends, by is not None and by.strict)
        if block.channel == self._goal:
            return self._build_goal(block, ends, fit, by)
        if fit and not (
            judge.is_overkill(block, ends)
            or (by is not None and judge.is_loose(block))
            or judge.is_outdone(block, ends)
        ):
            return Candidate(block, ends, fit=True)
        return Candidate(block, ends, fit=False) if self._is_support(block, made=by is not None) else None

    def _is_support(self, block: BlockNode, *, made: bool) -> bool:
        """Is it a base that a delta or a task starts from, or a chain, which costs nothing, that may become one?"""
        return (not made or block.source is None) and self._judge.is_support(block)

    def _is_still_support(self, found: Candidate) -> bool:
        """Is a block that was outdone after it was queued worth having all the same, to start from?"""
        found.fit = False
        return not found.accepted and self._is_support(found.block, made=found.step is not None)

    def _build_goal(self, block: BlockNode, ends: Ends, fit: bool, by: BlockProducer | None) -> Candidate | None:
        """What does not do as the goal may still be converted into what does, or serve as the base for it."""
        objection = self._judge.find_objection(block)
        if objection is None and self._judge.is_outdone(block, ends):
            objection = RejectionReason.OUTDONE
        if objection is None:
            return Candidate(block, ends, fit=fit, accepted=True)
        if by is not None:
            self._rejected.append(RejectedBlock(by.task, by.variant, block, objection))
        conversions = self._stock.layout.channels[self._goal].conversions
        useful = any(block.source is None or c.can_take(block.shape) for c in conversions)
        return Candidate(block, ends, fit=fit) if useful and objection is not RejectionReason.OUTDONE else None
