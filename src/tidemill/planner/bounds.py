"""Promises, checked: a channel's bounds in the order of its pathways, and what bounds downstream mean upstream."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemill.model.time import Version
from tidemill.planner.graph import Bounds
from tidemill.planner.graph_index import Layout
from tidemill.planner.vector import NEVER, Ends, Vector, end, start


@dataclass(frozen=True, slots=True)
class Limit:
    """The bounds of a channel, one staleness for each pathway; None: any."""

    staleness: tuple[Version | None, ...]
    inconsistency: Version | None
    _bounded: tuple[tuple[int, Version], ...] = field(init=False, repr=False, compare=False)  # by place

    def __post_init__(self) -> None:
        bounded = tuple((place, bound) for place, bound in enumerate(self.staleness) if bound is not None)
        object.__setattr__(self, "_bounded", bounded)

    def fresh(self, ends: Ends, now: Version) -> bool:
        """Is no pathway too stale? One that contributes nothing is not."""
        late = [place for place, bound in self._bounded if ends[place] + bound < now and ends[place] != NEVER]
        return not late

    def consistent(self, vector: Vector, ends: Ends) -> bool:
        if self.inconsistency is None or (len(vector) == 1 and len(vector[0]) < 2):
            return True  # a version alone was valid at its time
        return apart(vector, ends) < self.inconsistency

    def holds(self, vector: Vector, ends: Ends, now: Version) -> bool:
        return self.fresh(ends, now) and self.consistent(vector, ends)

    def passed_at(self, ends: Ends, now: Version) -> Version | None:
        """The first moment at which something is too stale if nothing is done; None if that is not in sight.

        What is newest ends `now`, whenever that is: it grows stale only once something newer has come.
        """
        pairs = zip(ends, self.staleness, strict=True)
        return min((e + t + 1 for e, t in pairs if t is not None and e not in (NEVER, now)), default=None)


def apart(vector: Vector, ends: Ends) -> Version:
    """By how much the newest version began after the oldest ended; below zero if they were valid together."""
    oldest = end(ends)
    return NEVER if oldest is None else start(vector) - oldest


def own(layout: Layout, channel: str) -> Limit:
    """The bounds that were declared for the channel."""
    bounds: Bounds = layout.channels[channel].bounds
    return Limit(tuple(bounds.staleness.get(p) for p in layout.pathways[channel]), bounds.inconsistency)


def declared(layout: Layout, goal: str) -> dict[str, Limit]:
    return {c: own(layout, c) for c in layout.upstream(goal)}


def propagated(layout: Layout, goal: str) -> dict[str, Limit]:
    """What the bounds of the goal and of all on the way mean for each channel upstream: a block beyond will not do."""
    limits = declared(layout, goal)
    for channel in reversed(list(limits)):
        for child in layout.children[channel]:
            if child.channel in limits:
                below = _projected(limits[child.channel], layout, channel, child.offset)
                limits[channel] = _tighter(limits[channel], below)
        if channel != goal:
            limits[channel] = _capped(limits[channel])
    return limits


def _projected(limit: Limit, layout: Layout, channel: str, offset: int) -> Limit:
    width = len(layout.pathways[channel])
    return Limit(limit.staleness[offset : offset + width], limit.inconsistency)


def _tighter(one: Limit, other: Limit) -> Limit:
    staleness = tuple(_least(a, b) for a, b in zip(one.staleness, other.staleness, strict=True))
    return Limit(staleness, _least(one.inconsistency, other.inconsistency))


def _capped(limit: Limit) -> Limit:
    """What is staler than the inconsistency allowed can only be combined with what is stale as well."""
    return Limit(tuple(_least(t, limit.inconsistency) for t in limit.staleness), limit.inconsistency)


def _least(one: Version | None, other: Version | None) -> Version | None:
    return min((t for t in (one, other) if t is not None), default=None)
