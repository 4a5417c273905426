"""Watermarks: how fresh channels with event time are, and the data time that flows reach.

An edge is recorded with every block of a channel that `wf.settled` writes. Whatever is made of such a channel is as
fresh as the channel was where it was read, which provenance tells: each version of an input that a table reflects by
way of the channel, the channel reflected when its edge stood somewhere. Of several edges the earliest counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidemill.model.provenance import Pathway, Provenance
from tidemill.model.time import Version
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import FlowFacts, Pace, RegisteredBinding

BLOCKS = 200
"""Newest blocks of a channel that are looked at."""

Newest = Mapping[Pathway, Version]
"""By pathway, the newest version that is reflected."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A channel that reflected these versions was settled up to `edge`; None: nobody could say yet."""

    newest: Newest
    edge: Version | None


@dataclass(frozen=True, slots=True)
class Edges:
    """Where the edges of channels with event time stood, the latest last."""

    marks: Mapping[str, Sequence[Mark]]

    def timed(self, channel: str, pathway: Pathway) -> bool:
        """Do the data that come to a channel by a pathway pass one with event time?"""
        return any(passed in self.marks for passed in (*pathway[1:], channel))

    def edge(self, channel: str, pathway: Pathway, newest: Version) -> Version | None:
        """How far event time is settled in what a channel reflects by a pathway; None if nobody can say."""
        return _earliest(self._at(*place, newest) for place in self._places(channel, pathway))

    def of(self, channel: str, newest: Newest) -> Version | None:
        """The same by all pathways; None also if no data with event time come to it."""
        return _earliest(self.edge(channel, p, v) for p, v in newest.items() if self.timed(channel, p))

    def moments(self) -> set[Version]:
        return {mark.edge for marks in self.marks.values() for mark in marks if mark.edge is not None}

    def _places(self, channel: str, pathway: Pathway) -> Iterator[tuple[str, Pathway]]:
        """The channels with event time on the way, and by which pathway data come to each."""
        way = (*pathway, channel)
        return ((way[n], way[:n]) for n in range(1, len(way)) if way[n] in self.marks)

    def _at(self, channel: str, pathway: Pathway, newest: Version) -> Version | None:
        reflected = (m for m in reversed(self.marks[channel]) if m.newest.get(pathway, newest + 1) <= newest)
        return next((m.edge for m in reflected), None)


NO_EDGES = Edges({})


def newest_of(reached: Provenance) -> Newest:
    return {pathway: max(versions) for pathway, versions in reached.pathways.items()}


def edges(catalog: CatalogReader, bindings: Iterable[RegisteredBinding]) -> Edges:
    """Of all channels that any task settles."""
    return Edges({channel: _marks(catalog, channel) for channel in sorted(set(_settled(bindings)))})


def _earliest(found: Iterable[Version | None]) -> Version | None:
    known = list(found)
    return None if None in known else min((edge for edge in known if edge is not None), default=None)


def _settled(bindings: Iterable[RegisteredBinding]) -> Iterator[str]:
    settling = (task for binding in bindings for task in binding.spec["tasks"] if task.get("settles"))
    return (write["channel"] for task in settling for write in task["writes"])


def _marks(catalog: CatalogReader, channel: str) -> list[Mark]:
    blocks = sorted(catalog.blocks(channel, BLOCKS), key=lambda b: b.seq)
    return [Mark(newest_of(b.reached), b.edge) for b in blocks if b.reached]


Paces = Mapping[str, tuple[Pace, ...]]
"""By flow, of the event time that it reflects; none if it reflects what has come."""


def paces(known: Mapping[str, FlowFacts]) -> Paces:
    found: dict[str, tuple[Pace, ...]] = {}

    def of(flow: str) -> tuple[Pace, ...]:
        if flow not in found:
            facts, found[flow] = known[flow], ()  # flows may read of each other
            above = {pace: None for parent in facts.parents for pace in of(parent)}
            found[flow] = tuple(above) if facts.pace is None else (facts.pace,)
        return found[flow]

    return {flow: of(flow) for flow in known} if any(f.pace for f in known.values()) else {}


def data_time(of: Iterable[Pace], moment: float) -> float:
    """Up to where a flow gets that loads all that came by a moment: the earliest edge of all that it reflects."""
    return min((pace.edge_at(moment) for pace in of), default=moment)
