"""Proportional tracks: jobs of like length together, and each kind has a share of the tracks that fits its load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil, floor, fsum
from operator import attrgetter

from tidemill.scheduler.job import JobProfile
from tidemill.scheduler.tracks.lane import Shared, TrackLane

TINY = 1e-9
"""Sums of shares that should be whole may differ from it by that."""


class ClusterMeasure(Enum):
    """What must be less than k times the least period of a cluster, so that a job belongs to it."""

    TIMES = "times"  # the time that an update takes
    PERIODS = "periods"


@dataclass(frozen=True, slots=True)
class ProportionalPlacement:
    """Long jobs have the first tracks; short ones the rest, and they may be guests on those of longer ones.

    With `spread` all tracks are shared out; otherwise as many as the load needs, and the rest are free for all. If not
    aggressive, a job is a guest only where nobody waits for its home.
    """

    spread: bool = True
    aggressive: bool = True
    k: float = 1.0
    alike: ClusterMeasure = ClusterMeasure.TIMES

    def build_lanes(self, profiles: Sequence[JobProfile], tracks: int) -> Iterable[Shared]:
        groups = cluster_jobs(profiles, self.k, self.alike)
        used = self._count_used_tracks(profiles, tracks)
        free = tuple(range(used, tracks))
        lanes = [
            TrackLane(home, free, tuple(range(min(home))), polite=not self.aggressive)
            for home in _share_tracks(groups, used)
        ]
        return zip(lanes, reversed(groups), strict=True)

    def _count_used_tracks(self, profiles: Sequence[JobProfile], tracks: int) -> int:
        if self.spread:
            return tracks
        return max(1, min(ceil(fsum(p.load for p in profiles) - TINY), tracks))


def cluster_jobs(profiles: Sequence[JobProfile], k: float, alike: ClusterMeasure) -> list[list[JobProfile]]:
    """Jobs of like length, the shortest first."""
    measure: Callable[[JobProfile], float] = attrgetter("usual" if alike is ClusterMeasure.TIMES else "period")
    found: list[list[JobProfile]] = []
    least = 0.0
    for job in sorted(profiles, key=attrgetter("usual", "name")):
        if found and measure(job) < k * least:
            found[-1].append(job)
            if job.period < least:
                least = job.period
        else:
            found.append([job])
            least = job.period
    return found


def _share_tracks(groups: Sequence[Sequence[JobProfile]], tracks: int) -> Iterator[tuple[int, ...]]:
    """The homes of each cluster, the longest jobs first. The track that a cluster shares is tried last."""
    loads = [fsum(p.load for p in group) for group in reversed(groups)]
    total, low = fsum(loads), 0.0
    for i in range(len(loads)):
        high = tracks * fsum(loads[: i + 1]) / total
        first, last = floor(low + TINY), ceil(high - TINY)
        yield (*range(first + 1, last), first)
        low = high
