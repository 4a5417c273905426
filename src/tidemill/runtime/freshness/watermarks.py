"""Watermarks: the freshness of channels with event time, and the data time that flows reach.

Every block of a channel that `wf.settled` writes records its watermark. Data derived from such a channel is as fresh as
the channel was at the position where it was read, which provenance determines: for each input version that a table
reflects by way of the channel, the watermark is that of the block by which the channel first reflected it. Of several
watermarks the earliest counts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidemill.model.provenance import Pathway, Provenance
from tidemill.model.time import Version
from tidemill.ports.catalog import BlockQueries
from tidemill.ports.records import FlowStatistics, RegisteredBinding, WatermarkProgress

BLOCKS = 200
"""Newest blocks of a channel that are read."""

Newest = Mapping[Pathway, Version]
"""The newest version that is reflected, by pathway."""


@dataclass(frozen=True, slots=True)
class ChannelWatermark:
    """The watermark of a channel when it reflected these versions; None: not known yet."""

    newest: Newest
    watermark: Version | None


@dataclass(frozen=True, slots=True)
class WatermarkHistory:
    """Watermarks of channels with event time, the latest last."""

    marks: Mapping[str, Sequence[ChannelWatermark]]

    def has_event_time(self, channel: str, pathway: Pathway) -> bool:
        """Tell whether data that comes to a channel by a pathway passes a channel with event time."""
        return any(name in self.marks for name in (*pathway[1:], channel))

    def find_watermark(self, channel: str, pathway: Pathway, newest: Version) -> Version | None:
        """Return the watermark of the data that a channel reflects by a pathway; None if it is unknown."""
        return _find_earliest(
            self._find_watermark_at(*step, newest) for step in self._list_timed_channels(channel, pathway)
        )

    def find_earliest_watermark(self, channel: str, newest: Newest) -> Version | None:
        """Return the earliest watermark of all pathways; None also if no data with event time comes to the channel."""
        return _find_earliest(
            self.find_watermark(channel, p, v) for p, v in newest.items() if self.has_event_time(channel, p)
        )

    def list_moments(self) -> set[Version]:
        return {mark.watermark for marks in self.marks.values() for mark in marks if mark.watermark is not None}

    def _list_timed_channels(self, channel: str, pathway: Pathway) -> Iterator[tuple[str, Pathway]]:
        """Yield the channels with event time on a pathway, each with the part of the pathway that leads to it."""
        route = (*pathway, channel)
        return ((route[n], route[:n]) for n in range(1, len(route)) if route[n] in self.marks)

    def _find_watermark_at(self, channel: str, pathway: Pathway, newest: Version) -> Version | None:
        reflected = (m for m in reversed(self.marks[channel]) if m.newest.get(pathway, newest + 1) <= newest)
        return next((m.watermark for m in reflected), None)


NO_WATERMARKS = WatermarkHistory({})


def find_newest_versions(reached: Provenance) -> Newest:
    return {pathway: max(versions) for pathway, versions in reached.pathways.items()}


def read_watermarks(blocks: BlockQueries, bindings: Iterable[RegisteredBinding]) -> WatermarkHistory:
    """Read the watermarks of all channels that a watermark task writes."""
    tasks = (task for binding in bindings for task in binding.tasks if task.has_watermark)
    channels = sorted({channel for task in tasks for channel in task.written_channels})
    return WatermarkHistory({channel: _read_channel_watermarks(blocks, channel) for channel in channels})


def _find_earliest(watermarks: Iterable[Version | None]) -> Version | None:
    values = list(watermarks)
    return None if None in values else min((value for value in values if value is not None), default=None)


def _read_channel_watermarks(blocks: BlockQueries, channel: str) -> list[ChannelWatermark]:
    newest = sorted(blocks.list(channel, BLOCKS), key=lambda b: b.seq)
    return [
        ChannelWatermark(find_newest_versions(b.channel_provenance), b.watermark)
        for b in newest
        if b.channel_provenance
    ]


ProgressByFlow = Mapping[str, tuple[WatermarkProgress, ...]]
"""Progress of the watermarks that a flow reflects; empty if the flow reflects arrival times."""


def compute_paces(statistics: Mapping[str, FlowStatistics]) -> ProgressByFlow:
    paces: dict[str, tuple[WatermarkProgress, ...]] = {}

    def collect_paces(flow: str) -> tuple[WatermarkProgress, ...]:
        if flow not in paces:
            flow_statistics, paces[flow] = statistics[flow], ()  # flows may read from each other
            inherited = {pace: None for parent in flow_statistics.parents for pace in collect_paces(parent)}
            own = flow_statistics.watermark_progress
            paces[flow] = tuple(inherited) if own is None else (own,)
        return paces[flow]

    has_watermarks = any(f.watermark_progress for f in statistics.values())
    return {flow: collect_paces(flow) for flow in statistics} if has_watermarks else {}


def compute_data_time(progress: Iterable[WatermarkProgress], time: float) -> float:
    """Return the data time of a flow that loads all data by a time: the earliest watermark that it reflects."""
    return min((pace.predict_watermark(time) for pace in progress), default=time)
