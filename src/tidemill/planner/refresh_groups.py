"""Estimates whether one run for several tables that are due together is better than a run for each.

One run starts once, so its track is free for other flows earlier. But its tables become visible together, at its end:
quick ones wait for slow ones. Both effects are measured in seconds of staleness, times priority, each time that the
tables are due. Separate runs would share one track, in the order that is best for the tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A flow that is due with others."""

    flow: str
    seconds: float  # usual duration of a run
    start: float  # part of it that any run takes besides its tasks
    priority: float


@dataclass(frozen=True, slots=True)
class GroupProposal:
    """Flows that could form a refresh group, and its effects."""

    flows: tuple[str, ...]
    separate_seconds: float  # seconds of their separate runs, one after the other
    seconds: float  # of one run
    others_gain: float  # by other flows
    members_loss: float  # by these flows; negative if they gain as well

    @property
    def is_worthwhile(self) -> bool:
        return self.others_gain > self.members_loss

    def __str__(self) -> str:
        """
        >>> alike = [GroupMember("a", 0.25, 0.05, 1.0), GroupMember("b", 0.25, 0.05, 1.0)]
        >>> str(propose_group(alike, waiting_priority=1.0)).split(": ")  # doctest: +NORMALIZE_WHITESPACE
        ['one run for a, b would take 0.45 s instead of 0.50 s; others gain 0.05 and they lose 0.15',
         'better in separate runs']
        """
        flows, separate = ", ".join(self.flows), self.separate_seconds
        durations = f"one run for {flows} would take {self.seconds:.2f} s instead of {separate:.2f} s"
        verdict = "better in one refresh group (refresh_group=)" if self.is_worthwhile else "better in separate runs"
        return f"{durations}; others gain {self.others_gain:.2f} and they lose {self.members_loss:.2f}: {verdict}"


def propose_group(members: Sequence[GroupMember], waiting_priority: float) -> GroupProposal:
    """Propose a refresh group; `waiting_priority`: the sum of the priorities of other flows that wait for the track."""
    starts = [p.start for p in members]
    apart = sum(p.seconds for p in members)
    seconds = apart - (sum(starts) - max(starts))
    order = sorted(members, key=lambda p: p.seconds / p.priority)
    ends = accumulate(p.seconds for p in order)
    lost = sum(p.priority * (seconds - end) for p, end in zip(order, ends, strict=True))
    return GroupProposal(tuple(p.flow for p in members), apart, seconds, (apart - seconds) * waiting_priority, lost)
