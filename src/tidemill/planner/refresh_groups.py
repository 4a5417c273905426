"""Would one run for several tables that are due together be better than a run for each?

One run starts once, so a track is free for others earlier. But its tables become visible together, at its end: quick
ones wait for slow ones. Both are counted in seconds of staleness, times priority, each time that they are due. Apart,
the tables would have one track, and go in the order that is best for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A flow that is due with others."""

    flow: str
    seconds: float  # that a run usually takes
    start: float  # of these, what any run takes besides its tasks
    priority: float


@dataclass(frozen=True, slots=True)
class GroupProposal:
    """Flows that could be one, and what would come of that."""

    flows: tuple[str, ...]
    apart: float  # seconds of their runs, one after the other
    seconds: float  # of one run
    gained: float  # by others
    lost: float  # by these; below zero if they gain as well

    @property
    def is_worthwhile(self) -> bool:
        return self.gained > self.lost

    def __str__(self) -> str:
        """
        >>> alike = [GroupMember("a", 0.25, 0.05, 1.0), GroupMember("b", 0.25, 0.05, 1.0)]
        >>> print(propose_group(alike, others=1.0))
        one run for a, b would take 0.45 s instead of 0.50 s; others gain 0.05 and they lose 0.15: better apart
        """
        took = f"one run for {', '.join(self.flows)} would take {self.seconds:.2f} s instead of {self.apart:.2f} s"
        verdict = "better together, so declare them with together=" if self.is_worthwhile else "better apart"
        return f"{took}; others gain {self.gained:.2f} and they lose {self.lost:.2f}: {verdict}"


def propose_group(parts: Sequence[GroupMember], others: float) -> GroupProposal:
    """`others`: the priorities of those who wait for the same track, added up."""
    starts = [p.start for p in parts]
    apart = sum(p.seconds for p in parts)
    seconds = apart - (sum(starts) - max(starts))
    order = sorted(parts, key=lambda p: p.seconds / p.priority)
    ends = accumulate(p.seconds for p in order)
    lost = sum(p.priority * (seconds - end) for p, end in zip(order, ends, strict=True))
    return GroupProposal(tuple(p.flow for p in parts), apart, seconds, (apart - seconds) * others, lost)
