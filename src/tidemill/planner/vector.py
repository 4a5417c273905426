"""Provenance in the planner's representation: one tuple of versions for each pathway of a channel.

The planner compares provenance some hundred times a call, and a channel's pathways are the same for all its blocks. So
the graph index stores the pathways, and vectors are positional: reading two channels concatenates, and a channel's part
in a derived channel is a slice. `tidemill.model.provenance` defines the semantics; tests check that both agree.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import le

from tidemill.model.provenance import MAX_VERSIONS, Pathway, Provenance
from tidemill.model.time import Timeline, Version

Entry = tuple[Version, ...]
"""The versions that one pathway reflects, ascending; empty: it contributes nothing."""

Vector = tuple[Entry, ...]
"""An entry for each pathway of a channel, in the channel's order."""

Ends = tuple[Version, ...]
"""The smallest end of each entry; `NEVER` for an empty one."""

NEVER: Version = -1


def pack_provenance(provenance: Provenance, pathways: Sequence[Pathway]) -> Vector:
    return tuple(tuple(sorted(provenance[p])) for p in pathways)


def find_start(vector: Vector) -> Version:
    """Return the largest version reflected on any pathway.

    >>> find_start(((8,), (1, 3), ()))
    8
    """
    return max([entry[-1] for entry in vector if entry], default=NEVER)


def is_before(earlier: Ends, later: Ends) -> bool:
    """True iff no pathway's end goes back and at least one advances; both reflect the same pathways.

    >>> is_before((8, 3), (8, 5)), is_before((8, 3), (9, 2)), is_before((NEVER, 3), (8, 5))
    (True, False, False)
    """
    if earlier == later or not all(map(le, earlier, later)):
        return False
    return NEVER not in earlier or all(b == NEVER for a, b in zip(earlier, later, strict=True) if a == NEVER)


def can_advance(reached: Ends, following: Ends) -> bool:
    """Tell whether a consumer would advance on some pathway and go back on none. An empty one may advance to any."""
    return reached != following and all(map(le, reached, following))


def is_legal_delta(base: Vector, source: Vector, target: Vector) -> bool:
    """Tell whether a delta can be applied: on each pathway it starts where the base is, or does not move.

    Unlike the model's rule, only a delta that starts from nothing applies to an empty pathway: in the catalog an empty
    base holds no rows, while a consumer that has received nothing yet would miss all data before the delta.
    """
    return base == source or all(b == s or s == t for b, s, t in zip(base, source, target, strict=True))


def apply_delta(base: Vector, source: Vector, target: Vector) -> Vector:
    """Return the vector of a base after the delta is applied to it.

    >>> apply_delta(((1,), (4,)), ((1,), (5,)), ((2,), (5,)))
    ((2,), (4, 5))
    """
    entries = zip(base, source, target, strict=True)
    return tuple([t if b == s else _keep_extremes({*b}.difference(s).union(t)) for b, s, t in entries])


def merge_later(one: Vector, other: Vector) -> Vector:
    """Take, for each pathway, the entry that ends later: the one whose oldest version is newer, as tuples compare.

    >>> merge_later(((5,), (1, 7), ()), ((4,), (7,), (2,)))
    ((5,), (7,), (2,))
    """
    return tuple(map(max, one, other))


def _keep_extremes(versions: Iterable[Version]) -> Entry:
    ordered = sorted(versions)
    if len(ordered) > MAX_VERSIONS:
        ordered = ordered[: MAX_VERSIONS // 2] + ordered[-MAX_VERSIONS // 2 :]
    return tuple(ordered)


class PlanningClock:
    """Ends of vectors at one time, each computed once; `inputs` gives the inputs of each channel's pathways."""

    __slots__ = ("_cache", "_inputs", "_timeline", "now")

    def __init__(self, timeline: Timeline, inputs: Mapping[str, tuple[str, ...]]) -> None:
        self.now = timeline.now
        self._timeline, self._inputs = timeline, inputs
        self._cache: defaultdict[int, dict[Vector, Ends]] = defaultdict(dict)

    def find_ends(self, channel: str, vector: Vector) -> Ends:
        inputs = self._inputs[channel]
        cache = self._cache[id(inputs)]  # channels with the same inputs, one object in a graph index, share the cache
        ends = cache.get(vector)
        if ends is None:
            end = self._timeline.find_end  # ends ascend with versions, so the oldest has the smallest
            entries = zip(inputs, vector, strict=True)
            ends = cache[vector] = tuple([end(c, e[0]) if e else NEVER for c, e in entries])
        return ends
