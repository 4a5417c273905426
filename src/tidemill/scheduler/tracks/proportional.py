"""Proportional tracks: jobs of similar length form clusters, and each cluster has a share of the tracks by its load."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil, floor, fsum
from operator import attrgetter

from tidemill.scheduler.job import JobProfile
from tidemill.scheduler.tracks.lane import LaneJobs, TrackLane

TOLERANCE = 1e-9
"""Tolerance of sums of shares."""


class ClusterMeasure(Enum):
    """The measure of a job that must be less than k times the smallest period of a cluster, for the job to join it."""

    TIMES = "times"  # the duration of an update
    PERIODS = "periods"


@dataclass(frozen=True, slots=True)
class ProportionalPlacement:
    """Long jobs have the first tracks; short ones the rest, and they may be guests on those of longer ones.

    With `spread` all tracks are shared out; otherwise as many as the load needs, and the rest are free for all. If not
    aggressive, a job is a guest only while no job waits for its home.
    """

    spread: bool = True
    aggressive: bool = True
    k: float = 1.0
    measure: ClusterMeasure = ClusterMeasure.TIMES

    def build_lanes(self, profiles: Sequence[JobProfile], tracks: int) -> Iterable[LaneJobs]:
        groups = cluster_jobs(profiles, self.k, self.measure)
        needed = max(1, ceil(fsum(p.load for p in profiles) - TOLERANCE))
        used = tracks if self.spread else min(needed, tracks)
        free = tuple(range(used, tracks))
        lanes = [
            TrackLane(home, free, tuple(range(min(home))), polite=not self.aggressive)
            for home in _share_tracks(groups, used)
        ]
        return zip(lanes, reversed(groups), strict=True)


def cluster_jobs(profiles: Sequence[JobProfile], k: float, measure: ClusterMeasure) -> list[list[JobProfile]]:
    """Cluster jobs of similar length, the shortest first."""
    clusters: list[list[JobProfile]] = []
    shortest_period = 0.0
    for job in sorted(profiles, key=attrgetter("usual_cost", "name")):
        length = job.usual_cost if measure is ClusterMeasure.TIMES else job.period
        if clusters and length < k * shortest_period:
            clusters[-1].append(job)
            shortest_period = min(shortest_period, job.period)
        else:
            clusters.append([job])
            shortest_period = job.period
    return clusters


def _share_tracks(groups: Sequence[Sequence[JobProfile]], tracks: int) -> Iterator[tuple[int, ...]]:
    """Yield the home tracks of each cluster, the longest jobs first. The track that a cluster shares is tried last."""
    loads = [fsum(p.load for p in group) for group in reversed(groups)]
    total, low = fsum(loads), 0.0
    for i in range(len(loads)):
        high = tracks * fsum(loads[: i + 1]) / total
        first, last = floor(low + TOLERANCE), ceil(high - TOLERANCE)
        yield (*range(first + 1, last), first)
        low = high
