"""Prunes the search: checks bounds, and applies the rules that leave out unneeded blocks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import le

from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.bounds import ChannelLimit, compute_inconsistency
from tidemill.planner.candidates import Candidate
from tidemill.planner.graph import BlockNode, BlockShape
from tidemill.planner.steps import RejectionReason
from tidemill.planner.vector import Ends, PlanningClock, Vector, apply_delta, can_advance, is_before, is_legal_delta


@dataclass(frozen=True, slots=True)
class SearchRules:
    """The rules that are enabled; a planner that finds no plan disables some. `chains` acts on existing blocks."""

    chains: bool = True  # read deltas that no consumer distinguishes as one block
    propagation: bool = True  # apply downstream bounds upstream, as far as they concern existing pathways
    overkill: bool = True  # write no newer block where an existing one is new enough
    long_term: bool = True  # of two blocks that could be written, take the later one: it stays fresh longer
    loose_ends: bool = True  # write no delta that starts where no block ends and no consumer resumes


ALL = SearchRules()
NONE = SearchRules(False, False, False, False, False)


def relax_rules(rules: SearchRules) -> Iterator[SearchRules]:
    """Yield the rules, then fewer and fewer of those that can hide an existing plan."""
    yield rules
    for name in ("overkill", "long_term", "propagation", "loose_ends", "chains"):
        if getattr(rules, name):
            rules = replace(rules, **{name: False})
            yield rules


Purpose = tuple[str, BlockShape, Vector | None]
"""What a block can be used for: its channel, its shape, and for a delta the content that it starts from.

Goals have the same purpose, regardless of their start: they are applied to the content of the same consumer.
"""


class BlockPruner:
    """Evaluates blocks for one goal at one time. It remembers candidates, because later blocks outdo earlier ones."""

    def __init__(
        self,
        inventory: BlockInventory,
        goal: str,
        limits: Mapping[str, ChannelLimit],
        clock: PlanningClock,
        rules: SearchRules,
    ) -> None:
        self.ends = clock.find_ends
        self._inventory, self._goal, self._limits, self._clock, self._rules = inventory, goal, limits, clock, rules
        self._delivered = inventory.delivered[goal]
        self._delivered_ends = self.ends(goal, self._delivered)
        self._joints: dict[str, set[Vector]] = {}
        self._sufficient: dict[Purpose, list[Ends]] = {}
        self._competitors: dict[Purpose, list[Candidate]] = {}

    def list_existing(self, channel: str) -> Iterable[BlockNode]:
        inventory = self._inventory
        return inventory.list_blocks(channel) if self._rules.chains else inventory.list_parts(channel)

    def evaluate_existing(self, block: BlockNode) -> Candidate:
        """Return the candidate of an existing block. If it satisfies the bounds, no newer block of its shape is needed.

        Content of a derived channel that reflects nothing was never written: deltas can be applied to it, but it is not
        fit.
        """
        ends = self.ends(block.channel, block.target)
        is_written = any(block.target) or block.channel not in self._inventory.index.writer
        fit = is_written and self._limits[block.channel].is_satisfied(block.target, ends, self._clock.now)
        if fit:
            self._sufficient.setdefault(self._find_purpose(block), []).append(ends)
        accepted = block.channel == self._goal and self.find_objection(block) is None
        return Candidate(block, ends, fit=fit, accepted=accepted)

    def find_objection(self, block: BlockNode) -> RejectionReason | None:
        """Return why a block is not accepted as the goal, or None. A delta is checked by its effect on the consumer."""
        if not self._inventory.index.channels[self._goal].is_accepted(block.shape):
            return RejectionReason.UNACCEPTED
        if block.source is not None and not is_legal_delta(self._delivered, block.source, block.target):
            return RejectionReason.ILLEGAL
        reached = self._find_reached(block)
        limit, ends = self._limits[self._goal], self.ends(self._goal, reached)
        if not can_advance(self._delivered_ends, ends):
            return RejectionReason.NO_PROGRESS
        if not limit.is_fresh(ends, self._clock.now):
            return RejectionReason.STALE
        return None if limit.is_consistent(reached, ends) else RejectionReason.INCONSISTENT

    def _find_reached(self, block: BlockNode) -> Vector:
        return block.target if block.source is None else apply_delta(self._delivered, block.source, block.target)

    def _find_purpose(self, block: BlockNode) -> Purpose:
        return block.channel, block.shape, None if block.channel == self._goal else block.source

    def is_fit(self, block: BlockNode, ends: Ends, strict: bool) -> bool:
        """Tell whether other blocks may be derived from its target."""
        is_allowed = not strict or compute_inconsistency(block.target, ends) < 0
        return is_allowed and self._limits[block.channel].is_satisfied(block.target, ends, self._clock.now)

    def can_lead_on(self, candidate: Candidate) -> bool:
        """Tell whether an existing block can lead to others, or is only a base that deltas start from.

        A block derived from a delta is no fresher and no more consistent than the delta: from one that is not fit, at
        best a support. With several pathways, only its application shows whether it leads to a resume point.
        """
        block = candidate.block
        mixes = len(block.target) > 1 and block.channel in self._inventory.index.support_channels
        return candidate.fit or mixes or self.is_support(block)

    def is_support(self, block: BlockNode) -> bool:
        """Tell whether it leads to a resume point where a base is needed. Such a base may be stale."""
        is_needed = block.channel in self._inventory.index.support_channels
        return is_needed and block.target in self._inventory.find_resume_points(block.channel)

    def is_loose(self, block: BlockNode) -> bool:
        """Tell whether it is a delta that starts where no block of its channel ends, so that it cannot be applied."""
        source = block.source
        if not self._rules.loose_ends or source is None or block.channel == self._goal:
            return False
        if block.channel not in self._joints:
            existing = {b.target for b in self.list_existing(block.channel)}
            self._joints[block.channel] = existing | self._inventory.find_resume_points(block.channel)
        return source not in self._joints[block.channel] and any(source)

    def is_overkill(self, block: BlockNode, ends: Ends) -> bool:
        if not self._rules.overkill or block.channel == self._goal:
            return False  # on the goal's channel no existing block is new enough, or there would be no search
        return any(is_before(e, ends) for e in self._sufficient.get(self._find_purpose(block), ()))

    def is_outdone(self, block: BlockNode, ends: Ends) -> bool:
        """Tell whether a later block, which stays fresh longer, can serve the same purpose. For competing blocks."""
        competitors = self._competitors.get(self._find_purpose(block), ())
        return any(self._is_later(other, block, ends) for other in competitors)

    def _is_later(self, other: Candidate, block: BlockNode, ends: Ends) -> bool:
        """Tell whether a block ends later than another with these ends; a goal must also lead the consumer as far."""
        if not is_before(ends, other.ends):
            return False
        if block.channel != self._goal:
            return True
        reached, reached_by_other = (self.ends(self._goal, self._find_reached(b)) for b in (block, other.block))
        return all(map(le, reached, reached_by_other))

    def record_candidate(self, candidate: Candidate) -> None:
        """Remember a block that can be written and competes with others, and mark those that it outdoes.

        A block competes if others are derived from its target: a later block can then replace it. A stale base does
        not, because the delta that starts from it can be applied to no other; nor, on the goal's channel, does a block
        that is not accepted as the goal and only leads to another one.
        """
        competes = candidate.accepted if candidate.block.channel == self._goal else candidate.fit
        if not competes or not self._rules.long_term:
            return
        competitors = self._competitors.setdefault(self._find_purpose(candidate.block), [])
        for other in competitors:
            if not other.outdone:
                other.outdone = self._is_later(candidate, other.block, other.ends)
        competitors.append(candidate)
