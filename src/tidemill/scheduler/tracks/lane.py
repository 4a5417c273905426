"""The second of two interfaces: on which track a job may run; and one queue for all tracks.

The answer is data: lanes, and who runs in each of them. Jobs with equal lanes are treated alike. Whoever dispatches
reads lanes and knows nothing of how they came about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidemill.scheduler.job import JobProfile


@dataclass(frozen=True, slots=True)
class TrackLane:
    """The tracks of a job, in the order in which they are tried."""

    home: tuple[int, ...]
    free: tuple[int, ...] = ()  # nobody's home
    guest: tuple[int, ...] = ()  # the homes of others
    polite: bool = True  # a guest only where nobody waits for its home


Shared = tuple[TrackLane, Sequence[JobProfile]]
"""A lane, and jobs that run in it."""


class TrackPlacement(Protocol):
    """Puts jobs on tracks. Asked again whenever jobs, what is known of them, or the number of tracks change."""

    def build_lanes(self, profiles: Sequence[JobProfile], tracks: int) -> Iterable[Shared]:
        """Each job has one lane; tracks are numbered from 0."""
        ...


@dataclass(frozen=True, slots=True)
class SingleQueuePlacement:
    """Every job may run anywhere."""

    def build_lanes(self, profiles: Sequence[JobProfile], tracks: int) -> Iterable[Shared]:
        return [(TrackLane(tuple(range(tracks))), profiles)]
