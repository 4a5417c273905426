"""Which events complete their waves: what the window operator must know, found from tags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidemill.model.wave import LineageTag, WaveProgress


@dataclass(frozen=True, slots=True)
class EndedEvent:
    """That an event ended on the way: nothing was made of it."""

    tag: LineageTag
    arrived: int  # microseconds


@dataclass(frozen=True, slots=True)
class WaveEnd:
    """A wave that is complete by a word, not by an event."""

    wave: int
    arrived: int
    before: int  # the place among the events of the batch of the next one


@dataclass(frozen=True, slots=True)
class WaveCompletions:
    """Of events, and of words among them."""

    waves: npt.NDArray[np.int64]  # of each event
    closes: npt.NDArray[np.bool_]  # is the wave complete with it?
    ends: list[WaveEnd]


class WaveTracker:
    """The waves of a channel that are not complete. Its state is the tags that came of them."""

    def __init__(self, came: Iterable[LineageTag] = ()) -> None:
        self._progress: dict[int, WaveProgress] = {}
        self._came: dict[int, list[LineageTag]] = {}
        for tag in came:
            self._add_tag(tag)

    def track_tags(
        self, tags: Sequence[LineageTag], arrived: Sequence[int] = (), words: Sequence[EndedEvent] = ()
    ) -> WaveCompletions:
        """Take in what came, events before words that arrived with them. Without words, moments do not matter."""
        waves = np.array([tag.root for tag in tags], np.int64)
        closes, ends = np.zeros(len(tags), bool), []
        for place, word in _merge_by_arrival(arrived or [0] * len(tags), words):
            if word is None:
                closes[place] = self._add_tag(tags[place])
            elif self._add_tag(word.tag):
                ends.append(WaveEnd(word.tag.root, word.arrived, place))
        return WaveCompletions(waves, closes, ends)

    def _add_tag(self, tag: LineageTag) -> bool:
        complete = self._progress.setdefault(tag.root, WaveProgress()).add_tag(tag)
        self._came.setdefault(tag.root, []).append(tag)
        if complete:
            del self._progress[tag.root], self._came[tag.root]
        return complete

    @property
    def waiting_tags(self) -> list[LineageTag]:
        return [tag for tags in self._came.values() for tag in tags]


def _merge_by_arrival(arrived: Sequence[int], words: Sequence[EndedEvent]) -> Iterator[tuple[int, EndedEvent | None]]:
    """The places of events as they arrived, and words with the place of the next event."""
    said = 0
    for place, moment in enumerate(arrived):
        while said < len(words) and words[said].arrived < moment:
            yield place, words[said]
            said += 1
        yield place, None
    yield from ((len(arrived), word) for word in words[said:])
