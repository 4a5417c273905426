"""Temporal provenance: which versions of which inputs a block reflects, by every pathway.

A pathway is the route that data took: the input channel, then each derived channel that it passed through, without the
channel itself. For each pathway a provenance holds the *set* of input versions reflected, since a table that was
extended against different snapshots of a lookup table reflects all of them. A pathway that is absent contributes
nothing.

Of many versions on one pathway only the oldest and the newest are stored, so that a table that is extended for years
does not list each day. No decision depends on those in between: ends and starts follow from the extremes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tidemill.model.time import Timeline, Version

Pathway = tuple[str, ...]
_ARROW = ">"

MAX_VERSIONS = 32
"""The greatest number of versions that are stored for one pathway."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """For each pathway, the input versions reflected. Equality is by content."""

    pathways: Mapping[Pathway, frozenset[Version]]

    @classmethod
    def from_pathways(cls, pathways: Mapping[Pathway, Iterable[Version]]) -> Provenance:
        """Build one, leaving out pathways that reflect nothing.

        >>> print(Provenance.from_pathways({("clicks",): [3], ("pages",): []}))
        clicks: 3
        """
        limited = {p: _keep_extremes(frozenset(v)) for p, v in sorted(pathways.items())}
        return cls(MappingProxyType({p: v for p, v in limited.items() if v}))

    @classmethod
    def from_json(cls, data: Mapping[str, Iterable[Version]]) -> Provenance:
        return cls.from_pathways({tuple(p.split(_ARROW)): v for p, v in data.items()})

    def to_json(self) -> dict[str, list[Version]]:
        return {_ARROW.join(p): sorted(v) for p, v in self.pathways.items()}

    def __hash__(self) -> int:
        return hash(frozenset(self.pathways.items()))

    def __str__(self) -> str:
        parts = (f"{_ARROW.join(p)}: {', '.join(map(str, sorted(v)))}" for p, v in self.pathways.items())
        return "; ".join(parts)

    def __getitem__(self, pathway: Pathway) -> frozenset[Version]:
        return self.pathways.get(pathway, frozenset())

    def __bool__(self) -> bool:
        return bool(self.pathways)

    def append_channel(self, channel: str) -> Provenance:
        """The same versions as a reader of the derived channel `channel` sees them."""
        return Provenance.from_pathways({(*p, channel): v for p, v in self.pathways.items()})

    def find_start(self) -> Version | None:
        """The largest version reflected anywhere; None if nothing is."""
        return max((t for v in self.pathways.values() for t in v), default=None)

    def find_pathway_end(self, pathway: Pathway, time: Timeline) -> Version | None:
        """The smallest end of any version reflected by a pathway; None if nothing is."""
        return min((time.find_end(pathway[0], t) for t in self[pathway]), default=None)


def _keep_extremes(versions: frozenset[Version]) -> frozenset[Version]:
    """The oldest and the newest versions, half of each, if there are more than `MAX_VERSIONS`."""
    if len(versions) <= MAX_VERSIONS:
        return versions
    ordered = sorted(versions)
    return frozenset([*ordered[: MAX_VERSIONS // 2], *ordered[-MAX_VERSIONS // 2 :]])


EMPTY_PROVENANCE = Provenance.from_pathways({})


def merge_provenances(parts: Iterable[Provenance]) -> Provenance:
    """All pathways of all parts; where two parts share a pathway, the versions of both."""
    merged: dict[Pathway, frozenset[Version]] = {}
    for part in parts:
        for pathway, versions in part.pathways.items():
            merged[pathway] = merged.get(pathway, frozenset()) | versions
    return Provenance.from_pathways(merged)


def walk_pathways(
    sources: Mapping[str, Iterable[str]], inputs: Container[str], route: tuple[str, ...]
) -> Iterator[Pathway]:
    """The pathways from inputs along a route, whose first channel is derived from its sources, to its last channel."""
    for source in sorted(sources.get(route[0], ())):
        if source in inputs:
            yield (source, *route[:-1])
        elif source not in route:
            yield from walk_pathways(sources, inputs, (source, *route))


def apply_delta(base: Provenance, source: Provenance, target: Provenance) -> Provenance:
    """The provenance of `base` after a delta from `source` to `target` is applied to it."""
    pathways = base.pathways.keys() | target.pathways.keys()
    return Provenance.from_pathways({p: (base[p] - source[p]) | target[p] for p in pathways})
