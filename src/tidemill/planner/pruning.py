"""Which blocks are worth having: bounds, and the rules that leave out what is not needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tidemill.planner.block_inventory import Stock
from tidemill.planner.bounds import Limit, apart
from tidemill.planner.candidates import Found
from tidemill.planner.graph import Block, Shape
from tidemill.planner.search import Rules
from tidemill.planner.steps import Reason
from tidemill.planner.vector import Clock, Ends, Vector, advances, applied, legal, precedes


class Judge:
    """Judges blocks for one goal at one moment. It remembers what was let pass, as later blocks outdo earlier ones."""

    def __init__(self, stock: Stock, goal: str, limits: Mapping[str, Limit], clock: Clock, rules: Rules) -> None:
        self.pruned: Counter[str] = Counter()
        self.ends = clock.ends
        self._stock, self._goal, self._limits, self._clock, self._rules = stock, goal, limits, clock, rules
        self._has = stock.delivered(goal)
        self._has_ends = self.ends(goal, self._has)
        self._joints: dict[str, set[Vector]] = {}
        self._enough: dict[tuple[str, Shape], list[Ends]] = {}
        self._passed: dict[tuple[str, Shape], list[Found]] = {}

    def existing(self, block: Block) -> Found:
        """A block that exists. If it keeps the bounds, nothing newer of its kind is needed.

        A derived channel's content that reflects nothing was never made: something can be applied to it, no more.
        """
        ends = self.ends(block.channel, block.target)
        made = any(block.target) or block.channel not in self._stock.layout.writer
        fit = made and self._limits[block.channel].holds(block.target, ends, self._clock.now)
        if fit:
            self._enough.setdefault((block.channel, block.shape), []).append(ends)
        accepted = block.channel == self._goal and self.objection(block) is None
        return Found(block, ends, fit=fit, accepted=accepted)

    def objection(self, block: Block) -> Reason | None:
        """Why a block would not do as the goal. A delta is judged by its effect on what the consumer has."""
        if not self._stock.layout.channels[self._goal].is_accepted(block.shape):
            return Reason.UNACCEPTED
        has, reached = self._has, block.target
        if block.source is not None:
            if not legal(has, block.source, block.target):
                return Reason.ILLEGAL
            reached = applied(has, block.source, block.target)
        return self._effect(reached)

    def _effect(self, reached: Vector) -> Reason | None:
        limit = self._limits[self._goal]
        ends = self.ends(self._goal, reached)
        if not advances(self._has_ends, ends):
            return Reason.BACKWARDS
        if not limit.fresh(ends, self._clock.now):
            return Reason.STALE
        return None if limit.consistent(reached, ends) else Reason.INCONSISTENT

    def is_fit(self, block: Block, ends: Ends, strict: bool) -> bool:
        """May it be taken for what it leads to?"""
        together = not strict or apart(block.target, ends) < 0
        return together and self._limits[block.channel].holds(block.target, ends, self._clock.now)

    def leads_on(self, found: Found) -> bool:
        """Can something be made of a block that exists, or is it only there for others to start from?

        What a delta becomes is no fresher and no more consistent than the delta: of one that is not fit, a support at
        best. Of several pathways, it is known only once it is applied whether it leads to where somebody stands.
        """
        block = found.block
        mixes = len(block.target) > 1 and block.channel in self._stock.layout.supported
        return found.fit or mixes or self.is_support(block)

    def is_support(self, block: Block) -> bool:
        """Does it lead to where somebody stands who needs a base there to go on from? Such a base may be stale."""
        channel = block.channel
        if channel not in self._stock.layout.supported:
            return False
        return block.target in self._stock.points(channel)

    def is_loose(self, block: Block) -> bool:
        """Is it a delta that starts where nothing on its channel ends, so that nothing can be done with it there?"""
        source = block.source
        if not self._rules.loose_ends or source is None or block.channel == self._goal:
            return False
        met = source in self._stock.points(block.channel) or source in self._targets(block.channel)
        return self._count("loose_ends", not met and any(source))

    def _targets(self, channel: str) -> set[Vector]:
        known = self._joints.get(channel)
        if known is None:
            blocks = self._stock.blocks(channel, chained=self._rules.chains)
            known = self._joints[channel] = {b.target for b in blocks}
        return known

    def is_overkill(self, block: Block, ends: Ends) -> bool:
        if not self._rules.overkill or block.channel == self._goal:
            return False  # there, nothing is new enough, or nobody would plan
        enough = self._enough.get((block.channel, block.shape))
        if enough is None:
            return False
        return self._count("overkill", any(precedes(e, ends) for e in enough))

    def is_outdone(self, block: Block, ends: Ends) -> bool:
        """Can a later block be made for the same purpose? It lasts longer. To be asked of blocks that compete."""
        passed = self._passed.get((block.channel, block.shape))
        if passed is None:
            return False
        return self._count("long_term", any(precedes(ends, p.ends) for p in passed))

    def let_pass(self, found: Found) -> None:
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
            if not other.outdone and precedes(other.ends, found.ends):
                other.outdone = self._count("long_term", True)
        passed.append(found)

    def _count(self, rule: str, pruned: bool) -> bool:
        if pruned:
            self.pruned[rule] += 1
        return pruned
