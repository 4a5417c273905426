"""Which blocks are worth having: bounds, and the rules that leave out what is not needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.bounds import ChannelLimit, compute_inconsistency
from tidemill.planner.candidates import Candidate
from tidemill.planner.graph import BlockNode, BlockShape
from tidemill.planner.search_rules import SearchRules
from tidemill.planner.steps import RejectionReason
from tidemill.planner.vector import Ends, PlanningClock, Vector, apply_delta, can_advance, is_before, is_legal_delta


class BlockPruner:
    """Judges blocks for one goal at one moment. It remembers what was let pass, as later blocks outdo earlier ones."""

    def __init__(
        self,
        stock: BlockInventory,
        goal: str,
        limits: Mapping[str, ChannelLimit],
        clock: PlanningClock,
        rules: SearchRules,
    ) -> None:
        self.pruned: Counter[str] = Counter()
        self.ends = clock.find_ends
        self._stock, self._goal, self._limits, self._clock, self._rules = stock, goal, limits, clock, rules
        self._has = stock.get_delivered(goal)
        self._has_ends = self.ends(goal, self._has)
        self._joints: dict[str, set[Vector]] = {}
        self._enough: dict[tuple[str, BlockShape], list[Ends]] = {}
        self._passed: dict[tuple[str, BlockShape], list[Candidate]] = {}

    def evaluate_existing(self, block: BlockNode) -> Candidate:
        """A block that exists. If it keeps the bounds, nothing newer of its kind is needed.

        A derived channel's content that reflects nothing was never made: something can be applied to it, no more.
        """
        ends = self.ends(block.channel, block.target)
        made = any(block.target) or block.channel not in self._stock.layout.writer
        fit = made and self._limits[block.channel].is_satisfied(block.target, ends, self._clock.now)
        if fit:
            self._enough.setdefault((block.channel, block.shape), []).append(ends)
        accepted = block.channel == self._goal and self.find_objection(block) is None
        return Candidate(block, ends, fit=fit, accepted=accepted)

    def find_objection(self, block: BlockNode) -> RejectionReason | None:
        """Why a block would not do as the goal. A delta is judged by its effect on what the consumer has."""
        if not self._stock.layout.channels[self._goal].is_accepted(block.shape):
            return RejectionReason.UNACCEPTED
        has, reached = self._has, block.target
        if block.source is not None:
            if not is_legal_delta(has, block.source, block.target):
                return RejectionReason.ILLEGAL
            reached = apply_delta(has, block.source, block.target)
        return self._check_effect(reached)

    def _check_effect(self, reached: Vector) -> RejectionReason | None:
        limit = self._limits[self._goal]
        ends = self.ends(self._goal, reached)
        if not can_advance(self._has_ends, ends):
            return RejectionReason.BACKWARDS
        if not limit.is_fresh(ends, self._clock.now):
            return RejectionReason.STALE
        return None if limit.is_consistent(reached, ends) else RejectionReason.INCONSISTENT

    def is_fit(self, block: BlockNode, ends: Ends, strict: bool) -> bool:
        """May it be taken for what it leads to?"""
        together = not strict or compute_inconsistency(block.target, ends) < 0
        return together and self._limits[block.channel].is_satisfied(block.target, ends, self._clock.now)

    def can_lead_on(self, found: Candidate) -> bool:
        """Can something be made of a block that exists, or is it only there for others to start from?

        What a delta becomes is no fresher and no more consistent than the delta: of one that is not fit, a support at
        best. Of several pathways, it is known only once it is applied whether it leads to where somebody stands.
        """
        block = found.block
        mixes = len(block.target) > 1 and block.channel in self._stock.layout.support_channels
        return found.fit or mixes or self.is_support(block)

    def is_support(self, block: BlockNode) -> bool:
        """Does it lead to where somebody stands who needs a base there to go on from? Such a base may be stale."""
        channel = block.channel
        if channel not in self._stock.layout.support_channels:
            return False
        return block.target in self._stock.find_resume_points(channel)

    def is_loose(self, block: BlockNode) -> bool:
        """Is it a delta that starts where nothing on its channel ends, so that nothing can be done with it there?"""
        source = block.source
        if not self._rules.loose_ends or source is None or block.channel == self._goal:
            return False
        met = source in self._stock.find_resume_points(block.channel) or source in self._find_targets(block.channel)
        return self._count_pruned("loose_ends", not met and any(source))

    def _find_targets(self, channel: str) -> set[Vector]:
        known = self._joints.get(channel)
        if known is None:
            blocks = self._stock.list_blocks(channel, chained=self._rules.chains)
            known = self._joints[channel] = {b.target for b in blocks}
        return known

    def is_overkill(self, block: BlockNode, ends: Ends) -> bool:
        if not self._rules.overkill or block.channel == self._goal:
            return False  # there, nothing is new enough, or nobody would plan
        enough = self._enough.get((block.channel, block.shape))
        if enough is None:
            return False
        return self._count_pruned("overkill", any(is_before(e, ends) for e in enough))

    def is_outdone(self, block: BlockNode, ends: Ends) -> bool:
        """Can a later block be made for the same purpose? It lasts longer. To be asked of blocks that compete."""
        passed = self._passed.get((block.channel, block.shape))
        if passed is None:
            return False
        return self._count_pruned("long_term", any(is_before(ends, p.ends) for p in passed))

    def record_candidate(self, found: Candidate) -> None:
        """Remember a block that can be made and competes with others, and mark those that it outdoes.

        A block competes if it is to be taken for what it leads to: a later block can then take its place. A stale base
        does not, because the delta that starts from it can be applied to no other; nor, on the goal's channel, does a
        block that would not do as the goal and only leads to another one.
        """
        competes = found.accepted if found.block.channel == self._goal else found.fit
        if not competes or not self._rules.long_term:
            return
        passed = self._passed.setdefault((found.block.channel, found.block.shape), [])
        for other in passed:
            if not other.outdone and is_before(other.ends, found.ends):
                other.outdone = self._count_pruned("long_term", True)
        passed.append(found)

    def _count_pruned(self, rule: str, pruned: bool) -> bool:
        if pruned:
            self.pruned[rule] += 1
        return pruned
