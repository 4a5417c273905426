"""Blocks that the search can have, and where it finds partners for them."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.planner.graph import BlockNode, PortRequirement
from tidemill.planner.steps import PlanStep
from tidemill.planner.vector import Ends, Vector


class Candidate:
    """A block and the cheapest way to have it: a step, after those for the blocks that it is made of."""

    __slots__ = ("accepted", "block", "cost", "dropped", "ends", "fit", "mask", "outdone", "parts", "step")

    def __init__(self, block: BlockNode, ends: Ends, *, fit: bool, accepted: bool = False) -> None:
        self.block = block
        self.ends = ends  # of what it leads to
        self.cost = 0.0
        self.parts: Filling = ()  # what must be made first
        self.step: int | None = None  # by its number; None: it exists, or is only read as one
        self.mask: int | None = None  # all steps as bits, once somebody has asked for them
        self.fit = fit  # may be taken for what it leads to, not only as a base to start from or as a part of a chain
        self.accepted = accepted  # would do as the goal
        self.dropped = False  # the same block can be had for less
        self.outdone = False  # a later block can be made for the same purpose

    @property
    def is_existing(self) -> bool:
        return self.step is None and not self.parts


Filling = tuple[Candidate, ...]
"""What a variant is given of one channel: nothing, a block, or an old base and the delta that starts there."""


class CandidateIndex:
    """The blocks of one channel by what they are looked up by."""

    __slots__ = ("bases", "ending", "fit", "starting")

    def __init__(self) -> None:
        self.bases: dict[Vector, Candidate] = {}
        self.starting: dict[Vector, list[Candidate]] = {}
        self.ending: dict[Vector, list[Candidate]] = {}
        self.fit: list[Candidate] = []

    def add_candidate(self, found: Candidate) -> None:
        block = found.block
        if block.source is None:
            self.bases[block.target] = found
        else:
            self.starting.setdefault(block.source, []).append(found)
            self.ending.setdefault(block.target, []).append(found)
        if found.fit:
            self.fit.append(found)

    def find_pairs(self, found: Candidate) -> list[tuple[Candidate, Candidate]]:
        """The pairs of a base and a delta that starts there in which this block takes part."""
        if found.block.source is None:
            return [(found, delta) for delta in self.starting.get(found.block.target, ())]
        return [(self.bases[found.block.source], found)] if found.block.source in self.bases else []

    def list_fillings(self, take: PortRequirement) -> list[Filling]:
        """All ways to fill a port with something."""
        fit = [found for found in self.fit if take.can_take(found.block.shape)]
        if not take.old:
            return [(found,) for found in fit]
        return [pair for found in fit for pair in self.find_pairs(found)]

    def list_fillings_with(self, found: Candidate, take: PortRequirement, as_old: bool) -> list[Filling]:
        """The ways to fill a port in which this block takes part."""
        if not (as_old or take.old):
            return [(found,)]
        return [pair for pair in self.find_pairs(found) if pair[1].fit and take.can_take(pair[1].block.shape)]


class StepRegistry:
    """Steps by their numbers. A step's is higher than those of all it needs, so they give an order to run them in."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: list[PlanStep] = []

    def add_step(self, step: PlanStep) -> int:
        self._steps.append(step)
        return len(self._steps) - 1

    def list_steps(self, found: Candidate) -> tuple[PlanStep, ...]:
        """All that it takes to have a block."""
        seen, left = {found}, [found]
        while left:
            new = [part for part in left.pop().parts if part not in seen]
            seen.update(new)
            left += new
        return tuple(self._steps[i] for i in sorted({f.step for f in seen if f.step is not None}))

    def compute_cost(self, parts: Filling) -> float:
        """Of having all of these; a step that several need is paid once."""
        if len(parts) == 1:
            return parts[0].cost
        cost, paid = 0.0, 0
        for part in parts:
            mask = _compute_mask(part)
            shared = paid & mask
            cost += sum(self._steps[i].cost for i in _iterate_bits(mask ^ shared)) if shared else part.cost
            paid |= mask
        return cost


def _compute_mask(found: Candidate) -> int:
    """The steps that it takes to have a block, as bits.

    Worked out where several blocks that must be made come together, and not before: in a long line each block takes all
    the steps of the one before, and nobody ever asks which.
    """
    left = [found]
    while left:
        top = left[-1]
        waiting = [part for part in top.parts if part.mask is None]
        if waiting:
            left += waiting
            continue
        mask = 0 if top.step is None else 1 << top.step
        for part in top.parts:
            mask |= part.mask or 0
        top.mask = mask
        left.pop()
    return found.mask or 0


def _iterate_bits(mask: int) -> Iterator[int]:
    return (i for i in range(mask.bit_length()) if mask >> i & 1)
