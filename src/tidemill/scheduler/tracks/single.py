"""One queue for all tracks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemill.scheduler.job import Profile
from tidemill.scheduler.tracks.lane import Lane, Shared


@dataclass(frozen=True, slots=True)
class SingleQueue:
    """Every job may run anywhere."""

    def lanes(self, profiles: Sequence[Profile], tracks: int) -> Iterable[Shared]:
        return [(Lane(tuple(range(tracks))), profiles)]
