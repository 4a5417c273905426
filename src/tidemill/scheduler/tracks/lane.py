"""The second of two interfaces: on which tracks a job may run; and a single queue for all tracks.

The result is data: lanes, and the jobs of each lane. Jobs with equal lanes are treated alike. The dispatcher depends on
lanes only, not on the placement that built them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidemill.scheduler.job import JobProfile


@dataclass(frozen=True, slots=True)
class TrackLane:
    """The tracks of a job, in the order in which they are tried."""

    home: tuple[int, ...]
    free: tuple[int, ...] = ()  # home of no job
    guest: tuple[int, ...] = ()  # homes of other jobs
    polite: bool = True  # a guest only while no job waits for its home


LaneJobs = tuple[TrackLane, Sequence[JobProfile]]
"""A lane, and the jobs that run in it."""


class TrackPlacement(Protocol):
    """Places jobs on tracks. Called again when jobs, their profiles, or the number of tracks change."""

    def build_lanes(self, profiles: Sequence[JobProfile], tracks: int) -> Iterable[LaneJobs]:
        """Return the lanes, one for each job; tracks are numbered from 0."""
        ...


@dataclass(frozen=True, slots=True)
class SingleQueuePlacement:
    """Every job may run on every track."""

    def build_lanes(self, profiles: Sequence[JobProfile], tracks: int) -> Iterable[LaneJobs]:
        return [(TrackLane(tuple(range(tracks))), profiles)]
