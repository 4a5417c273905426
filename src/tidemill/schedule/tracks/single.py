"""One queue for all tracks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.schedule.job import Profile
from tidemill.schedule.tracks.lane import Lane


@dataclass(frozen=True, slots=True)
class SingleQueue:
    """Every job may run anywhere."""

    def lanes(self, profiles: Sequence[Profile], tracks: int) -> Mapping[str, Lane]:
        return dict.fromkeys((p.name for p in profiles), Lane(tuple(range(tracks))))
