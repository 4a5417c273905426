"""Finds the events that complete their waves, from lineage tags, for the window operator."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidemill.model.wave import LineageTag, WaveProgress


@dataclass(frozen=True, slots=True)
class EndedEvent:
    """An event that ended on the way: it had no results."""

    tag: LineageTag
    arrived: int  # microseconds


@dataclass(frozen=True, slots=True)
class WaveEnd:
    """A wave that was completed by an ended event, not by an event of the batch."""

    wave: int
    arrived: int
    before: int  # position of the next event of the batch


@dataclass(frozen=True, slots=True)
class WaveCompletions:
    """Completed waves of events, and of ended events among them."""

    waves: npt.NDArray[np.int64]  # of each event
    closes: npt.NDArray[np.bool_]  # whether it completes the wave
    ends: list[WaveEnd]


class WaveTracker:
    """The incomplete waves of a channel. Its state is their tags."""

    def __init__(self, tags: Iterable[LineageTag] = ()) -> None:
        self._progress: dict[int, WaveProgress] = {}
        self._pending: dict[int, list[LineageTag]] = {}
        for tag in tags:
            self._add_tag(tag)

    def track_tags(
        self, tags: Sequence[LineageTag], arrived: Sequence[int] = (), ended_tags: Sequence[EndedEvent] = ()
    ) -> WaveCompletions:
        """Add tags, events before ended events of the same arrival. Without ended events, no times are needed."""
        waves = np.array([tag.root for tag in tags], np.int64)
        closes, ends = np.zeros(len(tags), bool), []
        for position, ended in _merge_by_arrival(arrived or [0] * len(tags), ended_tags):
            if ended is None:
                closes[position] = self._add_tag(tags[position])
            elif self._add_tag(ended.tag):
                ends.append(WaveEnd(ended.tag.root, ended.arrived, position))
        return WaveCompletions(waves, closes, ends)

    def _add_tag(self, tag: LineageTag) -> bool:
        complete = self._progress.setdefault(tag.root, WaveProgress()).add_tag(tag)
        self._pending.setdefault(tag.root, []).append(tag)
        if complete:
            del self._progress[tag.root], self._pending[tag.root]
        return complete

    @property
    def waiting_tags(self) -> list[LineageTag]:
        return [tag for tags in self._pending.values() for tag in tags]


def _merge_by_arrival(
    arrived: Sequence[int], ended_events: Sequence[EndedEvent]
) -> Iterator[tuple[int, EndedEvent | None]]:
    """Yield the positions of events in order of arrival, and ended events with the position of the next event."""
    next_ended = 0
    for position, time in enumerate(arrived):
        while next_ended < len(ended_events) and ended_events[next_ended].arrived < time:
            yield position, ended_events[next_ended]
            next_ended += 1
        yield position, None
    yield from ((len(arrived), ended) for ended in ended_events[next_ended:])
