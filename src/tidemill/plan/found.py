"""Blocks that the search can have, and where it finds partners for them."""

from __future__ import annotations

from tidemill.plan.graph import Block, Take
from tidemill.plan.steps import Step
from tidemill.plan.vector import Ends, Vector


class Found:
    """A block and the cheapest way to have it: the steps, as bits of a mask. What exists needs none."""

    __slots__ = ("accepted", "block", "cost", "dropped", "ends", "fit", "mask")

    def __init__(self, block: Block, ends: Ends, *, fit: bool, accepted: bool = False) -> None:
        self.block = block
        self.ends = ends  # of what it leads to
        self.cost = 0.0
        self.mask = 0
        self.fit = fit  # may be taken for what it leads to, not only as a base to start from or as a part of a chain
        self.accepted = accepted  # would do as the goal
        self.dropped = False


Filling = tuple[Found, ...]
"""What a variant is given of one channel: nothing, a block, or an old base and the delta that starts there."""


class Index:
    """The blocks of one channel by what they are looked up by."""

    __slots__ = ("bases", "ending", "fit", "starting")

    def __init__(self) -> None:
        self.bases: dict[Vector, Found] = {}
        self.starting: dict[Vector, list[Found]] = {}
        self.ending: dict[Vector, list[Found]] = {}
        self.fit: list[Found] = []

    def put(self, found: Found) -> None:
        block = found.block
        if block.source is None:
            self.bases[block.target] = found
        else:
            self.starting.setdefault(block.source, []).append(found)
            self.ending.setdefault(block.target, []).append(found)
        if found.fit:
            self.fit.append(found)

    def meeting(self, found: Found) -> list[tuple[Found, Found]]:
        """The pairs of a base and a delta that starts there in which this block takes part."""
        if found.block.source is None:
            return [(found, delta) for delta in self.starting.get(found.block.target, ())]
        return [(self.bases[found.block.source], found)] if found.block.source in self.bases else []

    def fillings(self, take: Take) -> list[Filling]:
        """All ways to fill a port with something."""
        fit = [found for found in self.fit if take.fits(found.block.shape)]
        if not take.old:
            return [(found,) for found in fit]
        return [pair for found in fit for pair in self.meeting(found)]

    def fillings_with(self, found: Found, take: Take, as_old: bool) -> list[Filling]:
        """The ways to fill a port in which this block takes part."""
        if not (as_old or take.old):
            return [(found,)]
        return [pair for pair in self.meeting(found) if pair[1].fit and take.fits(pair[1].block.shape)]


class Steps:
    """Steps by their bits. A step's bit is higher than those of all it needs, so bits give an order to run them in."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: list[Step] = []

    def add(self, step: Step) -> int:
        self._steps.append(step)
        return 1 << (len(self._steps) - 1)

    def of(self, mask: int) -> tuple[Step, ...]:
        return tuple(step for i, step in enumerate(self._steps) if mask >> i & 1)

    def together(self, parts: Filling) -> tuple[float, int]:
        """Cost and steps of having all of these; a step that several need is paid once."""
        cost, mask = 0.0, 0
        for part in parts:
            if not part.mask:
                continue  # it exists
            new = part.mask & ~mask
            cost += part.cost if new == part.mask else sum(step.cost for step in self.of(new))
            mask |= part.mask
        return cost, mask
