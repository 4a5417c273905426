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
from tidemill.ports.records import FlowStatistics, RegisteredBinding, WatermarkProgress

BLOCKS = 200
"""Newest blocks of a channel that are looked at."""

Newest = Mapping[Pathway, Version]
"""By pathway, the newest version that is reflected."""


@dataclass(frozen=True, slots=True)
class ChannelWatermark:
    """A channel that reflected these versions was settled up to `edge`; None: nobody could say yet."""

    newest: Newest
    edge: Version | None


@dataclass(frozen=True, slots=True)
class WatermarkHistory:
    """Where the edges of channels with event time stood, the latest last."""

    marks: Mapping[str, Sequence[ChannelWatermark]]

    def has_event_time(self, channel: str, pathway: Pathway) -> bool:
        """Do the data that come to a channel by a pathway pass one with event time?"""
        return any(passed in self.marks for passed in (*pathway[1:], channel))

    def find_watermark(self, channel: str, pathway: Pathway, newest: Version) -> Version | None:
        """How far event time is settled in what a channel reflects by a pathway; None if nobody can say."""
        return _find_earliest(
            self._find_watermark_at(*place, newest) for place in self._list_timed_channels(channel, pathway)
        )

    def find_earliest_watermark(self, channel: str, newest: Newest) -> Version | None:
        """The same by all pathways; None also if no data with event time come to it."""
        return _find_earliest(
            self.find_watermark(channel, p, v) for p, v in newest.items() if self.has_event_time(channel, p)
        )

    def list_moments(self) -> set[Version]:
        return {mark.edge for marks in self.marks.values() for mark in marks if mark.edge is not None}

    def _list_timed_channels(self, channel: str, pathway: Pathway) -> Iterator[tuple[str, Pathway]]:
        """The channels with event time on the way, and by which pathway data come to each."""
        way = (*pathway, channel)
        return ((way[n], way[:n]) for n in range(1, len(way)) if way[n] in self.marks)

    def _find_watermark_at(self, channel: str, pathway: Pathway, newest: Version) -> Version | None:
        reflected = (m for m in reversed(self.marks[channel]) if m.newest.get(pathway, newest + 1) <= newest)
        return next((m.edge for m in reflected), None)


NO_EDGES = WatermarkHistory({})


def find_newest_versions(reached: Provenance) -> Newest:
    return {pathway: max(versions) for pathway, versions in reached.pathways.items()}


def read_watermarks(catalog: CatalogReader, bindings: Iterable[RegisteredBinding]) -> WatermarkHistory:
    """Of all channels that any task settles."""
    return WatermarkHistory(
        {
            channel: _read_channel_watermarks(catalog, channel)
            for channel in sorted(set(_list_watermarked_channels(bindings)))
        }
    )


def _find_earliest(found: Iterable[Version | None]) -> Version | None:
    known = list(found)
    return None if None in known else min((edge for edge in known if edge is not None), default=None)


def _list_watermarked_channels(bindings: Iterable[RegisteredBinding]) -> Iterator[str]:
    settling = (task for binding in bindings for task in binding.spec["tasks"] if task.get("settles"))
    return (write["channel"] for task in settling for write in task["writes"])


def _read_channel_watermarks(catalog: CatalogReader, channel: str) -> list[ChannelWatermark]:
    blocks = sorted(catalog.list_blocks(channel, BLOCKS), key=lambda b: b.seq)
    return [ChannelWatermark(find_newest_versions(b.reached), b.edge) for b in blocks if b.reached]


Paces = Mapping[str, tuple[WatermarkProgress, ...]]
"""By flow, of the event time that it reflects; none if it reflects what has come."""


def compute_paces(known: Mapping[str, FlowStatistics]) -> Paces:
    found: dict[str, tuple[WatermarkProgress, ...]] = {}

    def collect_paces(flow: str) -> tuple[WatermarkProgress, ...]:
        if flow not in found:
            facts, found[flow] = known[flow], ()  # flows may read of each other
            above = {pace: None for parent in facts.parents for pace in collect_paces(parent)}
            found[flow] = tuple(above) if facts.pace is None else (facts.pace,)
        return found[flow]

    return {flow: collect_paces(flow) for flow in known} if any(f.pace for f in known.values()) else {}


def compute_data_time(of: Iterable[WatermarkProgress], moment: float) -> float:
    """Up to where a flow gets that loads all that came by a moment: the earliest edge of all that it reflects."""
    return min((pace.predict_watermark(moment) for pace in of), default=moment)
