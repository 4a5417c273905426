"""The dynamic program: Dijkstra's algorithm with blocks for vertices and steps for edges.

The cheapest available block is taken from a queue; every block that can be built from it, together with blocks that
were taken before, is put into the queue; the first block that is accepted as the goal is the cheapest. A block that is
polled cannot become cheaper, because no step has a negative cost.

A plan costs the sum of its steps, each paid once. The cheapest derivation of a block is found in isolation, though: a
more expensive one whose steps another block shares is not considered. So the cost found lies between that of the best
plan and that of the best plan without sharing, and is optimal where no two blocks share steps.
"""

from collections.abc import Mapping
from heapq import heappop, heappush

from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.bounds import ChannelLimit, compute_inconsistency
from tidemill.planner.candidates import Candidate, Filling, StepRegistry
from tidemill.planner.expansion import CandidateExpansion, Offer, Uses
from tidemill.planner.graph import BlockNode
from tidemill.planner.graph_index import BlockProducer
from tidemill.planner.pruning import BlockPruner, SearchRules
from tidemill.planner.steps import CostFunction, Plan, PlanStep, RejectedBlock, RejectionReason
from tidemill.planner.vector import Ends, PlanningClock


class PlanSearch:
    """One search for one goal; `limits` has the channels of the search, `uses` the variants that read their blocks."""

    def __init__(
        self,
        inventory: BlockInventory,
        goal: str,
        limits: Mapping[str, ChannelLimit],
        uses: Uses,
        clock: PlanningClock,
        costs: CostFunction,
        rules: SearchRules,
    ) -> None:
        self._inventory, self._goal, self._costs = inventory, goal, costs
        self._channels = limits.keys()
        self._pruner = BlockPruner(inventory, goal, limits, clock, rules)
        self._expansion = CandidateExpansion(inventory.index, uses, limits)
        self._best: dict[BlockNode, Candidate] = {}
        self._queue: list[tuple[float, int, Candidate]] = []
        self._steps = StepRegistry()
        self._rejected: list[RejectedBlock] = []
        self.generated = 0

    def find_plan(self) -> Plan | None:
        chosen = self._load_existing()
        while chosen is None and self._queue:
            candidate = heappop(self._queue)[2]
            if candidate.dropped or (candidate.outdone and not self._is_still_support(candidate)):
                continue
            if candidate.accepted:
                chosen = candidate
            else:
                self._expand_candidate(candidate)
        return None if chosen is None else self._build_plan(chosen)

    @property
    def rejected_goals(self) -> tuple[RejectedBlock, ...]:
        """The blocks of the goal that were considered and not chosen."""
        rejected = [*self._rejected]
        for _, _, candidate in self._queue:
            if candidate.accepted:
                task, variant, *_ = self._steps.list_steps(candidate)[-1]
                is_outdone = candidate.outdone and not candidate.dropped
                reason = RejectionReason.OUTDONE if is_outdone else RejectionReason.COSTLIER
                rejected.append(RejectedBlock(task, variant, candidate.block, reason, candidate.cost))
        return tuple(rejected)

    def _build_plan(self, candidate: Candidate) -> Plan:
        delivers = candidate.block if candidate.accepted else None
        return Plan(self._goal, self._steps.list_steps(candidate), delivers, candidate.cost)

    def _load_existing(self) -> Candidate | None:
        """Start from all existing blocks; if one is accepted as the goal, no plan is needed."""
        blocks = (block for channel in self._channels for block in self._pruner.list_existing(channel))
        candidates = [self._pruner.evaluate_existing(block) for block in blocks]
        ready = next((f for f in candidates if f.accepted), None)
        if ready is None:
            self._best = {f.block: f for f in candidates}
            leading = []
            for candidate in candidates:
                if self._pruner.can_lead_on(candidate):
                    leading.append(candidate)
                else:
                    self._expansion.add_candidate(candidate)  # it is only available for combinations
            for candidate in leading:
                self._expand_candidate(candidate)
        return ready

    def _expand_candidate(self, candidate: Candidate) -> None:
        for offer in self._expansion.list_offers(candidate):
            self._weigh_offer(offer)

    def _weigh_offer(self, offer: Offer) -> None:
        """Queue the blocks of an offer that are useful."""
        parts, blocks, producer = offer
        unbuilt = tuple([part for part in parts if not part.is_existing])
        cost = self._steps.compute_cost(unbuilt)
        candidates = [self._build_candidate(b, cost, producer) if b.channel in self._channels else None for b in blocks]
        if not any(candidates):
            return
        number = None
        if producer is not None:
            step = self._build_step(parts, blocks, producer)
            cost += step.cost
            number = self._steps.add_step(step)
        for candidate in candidates:
            if candidate is not None:
                candidate.cost, candidate.parts, candidate.step = cost, unbuilt, number
                self._queue_candidate(candidate)

    def _build_step(self, parts: Filling, blocks: tuple[BlockNode, ...], producer: BlockProducer) -> PlanStep:
        """Build a step with its cost, and set the estimated sizes of its blocks."""
        reads = tuple([part.block for part in parts])
        cost, sizes = self._costs(producer.task, producer.variant, reads)
        for block, size in zip(blocks, sizes, strict=True):
            block.size = size
        return PlanStep(producer.task, producer.variant, reads, blocks, cost)

    def _queue_candidate(self, candidate: Candidate) -> None:
        earlier = self._best.get(candidate.block)
        if earlier is not None:
            if earlier.cost <= candidate.cost:
                return
            earlier.dropped = True
        self._best[candidate.block] = candidate
        self._pruner.record_candidate(candidate)
        self.generated += 1
        heappush(self._queue, (candidate.cost, self.generated, candidate))

    def _build_candidate(self, block: BlockNode, cost: float, producer: BlockProducer | None) -> Candidate | None:
        """Return a candidate for a block that is useful, as far as known before its cost is; else None."""
        earlier = self._best.get(block)
        if earlier is not None and earlier.cost <= cost:
            return None
        pruner, ends = self._pruner, self._pruner.ends(block.channel, block.target)
        fit = pruner.is_fit(block, ends, producer is not None and producer.strict)
        if block.channel == self._goal:
            return self._build_goal(block, ends, fit, producer)
        if fit and not (
            pruner.is_overkill(block, ends)
            or (producer is not None and pruner.is_loose(block))
            or pruner.is_outdone(block, ends)
        ):
            return Candidate(block, ends, fit=True)
        return Candidate(block, ends, fit=False) if self._is_support(block, is_derived=producer is not None) else None

    def _is_support(self, block: BlockNode, *, is_derived: bool) -> bool:
        """Tell whether it is a base from which a delta or task continues, or a free chain that may become one."""
        return (not is_derived or block.source is None) and self._pruner.is_support(block)

    def _is_still_support(self, candidate: Candidate) -> bool:
        """Tell whether a block that was outdone after it was queued is still useful as a base to continue from."""
        candidate.fit = False
        return not candidate.accepted and self._is_support(candidate.block, is_derived=candidate.step is not None)

    def _build_goal(self, block: BlockNode, ends: Ends, fit: bool, producer: BlockProducer | None) -> Candidate | None:
        """Return a candidate for the goal; a block that is not accepted may still be converted, or serve as a base."""
        is_forbidden = producer is not None and producer.strict and compute_inconsistency(block.target, ends) >= 0
        objection = RejectionReason.INCONSISTENT if is_forbidden else self._pruner.find_objection(block)
        if objection is None and self._pruner.is_outdone(block, ends):
            objection = RejectionReason.OUTDONE
        if objection is None:
            return Candidate(block, ends, fit=fit, accepted=True)
        if producer is not None:
            self._rejected.append(RejectedBlock(producer.task, producer.variant, block, objection))
        conversions = self._inventory.index.channels[self._goal].conversions
        is_convertible = any(block.source is None or c.can_take(block.shape) for c in conversions)
        is_useless = is_forbidden or objection is RejectionReason.OUTDONE
        return Candidate(block, ends, fit=fit) if is_convertible and not is_useless else None
