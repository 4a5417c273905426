"""The rules of the paper for provenance, to which the planner's vectors are compared."""

from __future__ import annotations

from tidemill.model.provenance import Provenance
from tidemill.model.time import Timeline, Version


def find_end(provenance: Provenance, time: Timeline) -> Version | None:
    """The smallest end of any version reflected; None if nothing is."""
    ends = (time.find_end(pathway[0], t) for pathway, versions in provenance.pathways.items() for t in versions)
    return min(ends, default=None)


def is_consistent(provenance: Provenance, time: Timeline) -> bool:
    """True iff there was a time at which all reflected versions were the latest: `start < end`."""
    start, end = provenance.find_start(), find_end(provenance, time)
    return start is None or end is None or start < end


def is_before(earlier: Provenance, later: Provenance, time: Timeline) -> bool:
    """True iff no pathway's end goes back and at least one advances; both reflect the same pathways."""
    if earlier.pathways.keys() != later.pathways.keys():
        return False
    pairs = [[p.find_pathway_end(pathway, time) or 0 for p in (earlier, later)] for pathway in earlier.pathways]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def is_applicable(base: Provenance, source: Provenance, target: Provenance) -> bool:
    """Whether a delta from `source` to `target` may be applied to `base`.

    On each pathway the base must equal the delta's source, or the delta must not advance it, or the base must
    reflect nothing yet, as the empty first base of a channel does.
    """
    pathways = base.pathways.keys() | source.pathways.keys() | target.pathways.keys()
    return all(base[p] == source[p] or source[p] == target[p] or not base[p] for p in pathways)
