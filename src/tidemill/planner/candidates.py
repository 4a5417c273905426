"""Candidate blocks of the search, and the index that finds partners for them."""

from tidemill.planner.graph import BlockNode, PortRequirement
from tidemill.planner.steps import PlanStep
from tidemill.planner.vector import Ends, Vector


class Candidate:
    """A block and its cheapest derivation: a step, after the steps of the blocks that it is derived from."""

    __slots__ = ("accepted", "block", "cost", "dropped", "ends", "fit", "mask", "outdone", "parts", "step")

    def __init__(self, block: BlockNode, ends: Ends, *, fit: bool, accepted: bool = False) -> None:
        self.block = block
        self.ends = ends  # of its target
        self.cost = 0.0
        self.parts: Filling = ()  # blocks that must be written first
        self.step: int | None = None  # by its number; None: it exists, or is a chain
        self.mask: int | None = None  # all its steps as bits, once computed
        self.fit = fit  # others may be derived from it, not only as an old base or as a part of a chain
        self.accepted = accepted  # satisfies the goal
        self.dropped = False  # a cheaper derivation of the same block was found
        self.outdone = False  # a later block can be written for the same purpose

    @property
    def is_existing(self) -> bool:
        return self.step is None and not self.parts


Filling = tuple[Candidate, ...]
"""The input of a variant on one channel: nothing, a block, or an old base and the delta that starts there."""


class CandidateIndex:
    """The blocks of one channel, indexed by source and target."""

    __slots__ = ("bases", "ending", "fit", "starting")

    def __init__(self) -> None:
        self.bases: dict[Vector, Candidate] = {}
        self.starting: dict[Vector, list[Candidate]] = {}
        self.ending: dict[Vector, list[Candidate]] = {}
        self.fit: list[Candidate] = []

    def add_candidate(self, candidate: Candidate) -> None:
        block = candidate.block
        if block.source is None:
            self.bases[block.target] = candidate
        else:
            self.starting.setdefault(block.source, []).append(candidate)
            self.ending.setdefault(block.target, []).append(candidate)
        if candidate.fit:
            self.fit.append(candidate)

    def find_pairs(self, candidate: Candidate) -> list[tuple[Candidate, Candidate]]:
        """Return the pairs of a base and a delta that starts there which contain this block."""
        if candidate.block.source is None:
            return [(candidate, delta) for delta in self.starting.get(candidate.block.target, ())]
        return [(self.bases[candidate.block.source], candidate)] if candidate.block.source in self.bases else []

    def list_fillings(self, requirement: PortRequirement) -> list[Filling]:
        fit = [candidate for candidate in self.fit if requirement.can_use(candidate.block)]
        if not requirement.needs_old_base:
            return [(candidate,) for candidate in fit]
        return [pair for candidate in fit for pair in self.find_pairs(candidate)]

    def list_fillings_with(self, candidate: Candidate, requirement: PortRequirement, as_old: bool) -> list[Filling]:
        if not (as_old or requirement.needs_old_base):
            return [(candidate,)] if requirement.can_use(candidate.block) else []
        pairs = self.find_pairs(candidate)
        return [pair for pair in pairs if pair[1].fit and requirement.can_take(pair[1].block.shape)]


class StepRegistry:
    """Steps by number. A step's number is higher than those of all its prerequisites, so numbers give a valid order."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: list[PlanStep] = []

    def add_step(self, step: PlanStep) -> int:
        self._steps.append(step)
        return len(self._steps) - 1

    def list_steps(self, candidate: Candidate) -> tuple[PlanStep, ...]:
        seen, pending = {candidate}, [candidate]
        while pending:
            new = [part for part in pending.pop().parts if part not in seen]
            seen.update(new)
            pending += new
        return tuple(self._steps[i] for i in sorted({c.step for c in seen if c.step is not None}))

    def compute_cost(self, parts: Filling) -> float:
        """Return the cost of having all of these blocks; a shared step is paid once."""
        if len(parts) == 1:
            return parts[0].cost
        cost, paid = 0.0, 0
        for part in parts:
            mask = _compute_mask(part)
            shared = paid & mask
            unshared = mask ^ shared
            bits = (i for i in range(unshared.bit_length()) if unshared >> i & 1)
            cost += sum(self._steps[i].cost for i in bits) if shared else part.cost
            paid |= mask
        return cost


def _compute_mask(candidate: Candidate) -> int:
    """Return the steps of a block's derivation, as bits.

    It is computed only where several unwritten blocks are combined: in a long chain each block has all the steps of the
    one before, and they are never needed.
    """
    pending = [candidate]
    while pending:
        top = pending[-1]
        missing = [part for part in top.parts if part.mask is None]
        if missing:
            pending += missing
            continue
        mask = 0 if top.step is None else 1 << top.step
        for part in top.parts:
            mask |= part.mask or 0
        top.mask = mask
        pending.pop()
    return candidate.mask or 0
