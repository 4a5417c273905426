"""Provenance in the form in which the planner reckons with it: one tuple of versions for each pathway of a channel.

The planner compares provenance some hundred times a call, and a channel's pathways are the same for all its blocks.
So the pathways are left to the layout, and what remains is positional: reading two channels concatenates, a channel's
part in what is derived from it is a slice. `tidemill.model.provenance` says what everything means; that both agree is
tested.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import le

from tidemill.model.provenance import NAMED, Pathway, Provenance
from tidemill.model.time import Timeline, Version

Entry = tuple[Version, ...]
"""The versions that one pathway reflects, ascending; empty: it contributes nothing."""

Vector = tuple[Entry, ...]
"""An entry for each pathway of a channel, in the channel's order."""

Ends = tuple[Version, ...]
"""The smallest end of each entry; `NEVER` for an empty one."""

NEVER: Version = -1
NOTHING: Entry = ()


def pack_provenance(provenance: Provenance, pathways: Sequence[Pathway]) -> Vector:
    return tuple(tuple(sorted(provenance[p])) for p in pathways)


def unpack_vector(vector: Vector, pathways: Sequence[Pathway]) -> Provenance:
    return Provenance.from_pathways(dict(zip(pathways, vector, strict=True)))


def find_start(vector: Vector) -> Version:
    """The largest version reflected anywhere.

    >>> find_start(((8,), (1, 3), ()))
    8
    """
    return max([entry[-1] for entry in vector if entry], default=NEVER)


def find_end(ends: Ends) -> Version | None:
    """The smallest end of all, pathways that contribute nothing left out; None if none does."""
    return min((e for e in ends if e != NEVER), default=None)


def is_before(earlier: Ends, later: Ends) -> bool:
    """True iff no pathway's end goes back and at least one advances; both reflect the same pathways.

    >>> is_before((8, 3), (8, 5)), is_before((8, 3), (9, 2)), is_before((NEVER, 3), (8, 5))
    (True, False, False)
    """
    return earlier != later and is_not_after(earlier, later)


def is_not_after(earlier: Ends, later: Ends) -> bool:
    """`precedes`, or equal."""
    return all(map(le, earlier, later)) and (NEVER not in earlier or _is_empty_alike(earlier, later))


def _is_empty_alike(earlier: Ends, later: Ends) -> bool:
    return all(b == NEVER for a, b in zip(earlier, later, strict=True) if a == NEVER)


def can_advance(reached: Ends, following: Ends) -> bool:
    """Would a consumer go on, and back nowhere? One that has nothing yet of a pathway goes on with anything."""
    return reached != following and all(map(le, reached, following))


def is_legal_delta(base: Vector, source: Vector, target: Vector) -> bool:
    """May a delta be applied here: on each pathway it starts where the base is, or does not move?

    Unlike the model's rule, nothing applies to an empty pathway but what starts from nothing: in the catalog an empty
    base holds no rows, while a consumer that has got nothing yet would miss all that came before the delta.
    """
    return base == source or all(b == s or s == t for b, s, t in zip(base, source, target, strict=True))


def apply_delta(base: Vector, source: Vector, target: Vector) -> Vector:
    """What a base reflects once the delta is applied to it.

    >>> apply_delta(((1,), (4,)), ((1,), (5,)), ((2,), (5,)))
    ((2,), (4, 5))
    """
    entries = zip(base, source, target, strict=True)
    return tuple([t if b == s else _keep_extremes({*b}.difference(s).union(t)) for b, s, t in entries])


def merge_later(one: Vector, other: Vector) -> Vector:
    """Of each pathway the entry that ends later: the one whose oldest version is newer, which is how tuples compare.

    >>> merge_later(((5,), (1, 7), ()), ((4,), (7,), (2,)))
    ((5,), (7,), (2,))
    """
    return tuple(map(max, one, other))


def _keep_extremes(versions: Iterable[Version]) -> Entry:
    ordered = sorted(versions)
    if len(ordered) > NAMED:
        ordered = ordered[: NAMED // 2] + ordered[-NAMED // 2 :]
    return tuple(ordered)


class PlanningClock:
    """Ends of vectors at one moment, each worked out once; `inputs` says where the pathways of each channel begin."""

    __slots__ = ("_inputs", "_known", "_timeline", "now")

    def __init__(self, timeline: Timeline, inputs: Mapping[str, tuple[str, ...]]) -> None:
        self.now = timeline.now
        self._timeline, self._inputs = timeline, inputs
        self._known: defaultdict[int, dict[Vector, Ends]] = defaultdict(dict)

    def find_ends(self, channel: str, vector: Vector) -> Ends:
        """The smallest end on each pathway of a channel."""
        inputs = self._inputs[channel]
        known = self._known[id(inputs)]  # channels of the same inputs, which a layout has once, share what is known
        ends = known.get(vector)
        if ends is None:
            end = self._timeline.find_end  # ends ascend with versions, so the oldest has the smallest
            entries = zip(inputs, vector, strict=True)
            ends = known[vector] = tuple([end(c, e[0]) if e else NEVER for c, e in entries])
        return ends
