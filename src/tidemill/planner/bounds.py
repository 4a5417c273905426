"""Checks bounds: those of a channel in the order of its pathways, and those that downstream bounds imply upstream."""

from dataclasses import dataclass, field

from tidemill.model.time import Version
from tidemill.planner.graph import ChannelBounds
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.vector import NEVER, Ends, Vector, find_start


@dataclass(frozen=True, slots=True)
class ChannelLimit:
    """The bounds of a channel, one staleness for each pathway; None: unbounded."""

    staleness: tuple[Version | None, ...]
    inconsistency: Version | None
    _bounded: tuple[tuple[int, Version], ...] = field(init=False, repr=False, compare=False)  # by pathway position

    def __post_init__(self) -> None:
        bounded = tuple((position, bound) for position, bound in enumerate(self.staleness) if bound is not None)
        object.__setattr__(self, "_bounded", bounded)

    def is_fresh(self, ends: Ends, now: Version) -> bool:
        """Tell whether no pathway is too stale; an empty pathway never is."""
        return not [p for p, bound in self._bounded if ends[p] + bound < now and ends[p] != NEVER]

    def is_consistent(self, vector: Vector, ends: Ends) -> bool:
        if self.inconsistency is None or (len(vector) == 1 and len(vector[0]) < 2):
            return True  # a single version is consistent with itself
        return compute_inconsistency(vector, ends) < self.inconsistency

    def is_satisfied(self, vector: Vector, ends: Ends, now: Version) -> bool:
        return self.is_fresh(ends, now) and self.is_consistent(vector, ends)

    def find_violation_time(self, ends: Ends, now: Version) -> Version | None:
        """Return when a pathway becomes too stale, or None: the newest version ends `now` until another arrives."""
        pairs = zip(ends, self.staleness, strict=True)
        return min((e + t + 1 for e, t in pairs if t is not None and e not in (NEVER, now)), default=None)


def compute_inconsistency(vector: Vector, ends: Ends) -> Version:
    """Return by how much the newest version began after the oldest ended; negative if they were valid together."""
    oldest = min((e for e in ends if e != NEVER), default=None)
    return NEVER if oldest is None else find_start(vector) - oldest


def get_declared_limit(index: GraphIndex, channel: str) -> ChannelLimit:
    bounds: ChannelBounds = index.channels[channel].bounds
    return ChannelLimit(tuple(bounds.staleness.get(p) for p in index.pathways[channel]), bounds.inconsistency)


def list_declared_limits(index: GraphIndex, goal: str) -> dict[str, ChannelLimit]:
    return {c: get_declared_limit(index, c) for c in index.list_upstream(goal)}


def propagate_limits(index: GraphIndex, goal: str) -> dict[str, ChannelLimit]:
    """Return the bounds that the goal and all intermediate channels imply for each channel upstream."""
    limits = list_declared_limits(index, goal)
    for channel in reversed(list(limits)):
        for child in index.children[channel]:
            if child.channel in limits:
                limits[channel] = _tighten_limit(limits[channel], limits[child.channel], child.offset)
        if channel != goal:  # a block staler than the allowed inconsistency could only be combined with stale ones
            inconsistency = limits[channel].inconsistency
            staleness = tuple(_take_least(t, inconsistency) for t in limits[channel].staleness)
            limits[channel] = ChannelLimit(staleness, inconsistency)
    return limits


def _tighten_limit(limit: ChannelLimit, child: ChannelLimit, offset: int) -> ChannelLimit:
    """The limit that also satisfies that of a child, in which the channel's pathways begin at the offset."""
    implied = child.staleness[offset : offset + len(limit.staleness)]
    staleness = tuple(_take_least(a, b) for a, b in zip(limit.staleness, implied, strict=True))
    return ChannelLimit(staleness, _take_least(limit.inconsistency, child.inconsistency))


def _take_least(bound: Version | None, other: Version | None) -> Version | None:
    return min((t for t in (bound, other) if t is not None), default=None)
