"""EDF-partitioned tracks: on each, earliest deadline first loads every batch before the next one arrives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemill.errors import InfeasibleSchedule
from tidemill.scheduler.job import JobProfile
from tidemill.scheduler.tracks.lane import LaneJobs, TrackLane

TOLERANCE = 1e-9
"""Tolerance of sums of loads."""


@dataclass(frozen=True, slots=True)
class _TrackLoad:
    load: float = 0.0
    longest: float = 0.0  # usual cost of its jobs
    shortest: float = float("inf")  # period of its jobs

    def add_job(self, job: JobProfile) -> _TrackLoad:
        return _TrackLoad(self.load + job.load, max(self.longest, job.usual_cost), min(self.shortest, job.period))

    @property
    def is_feasible(self) -> bool:
        """True if no deadline is missed although jobs are not preempted: the last term is the cost of that."""
        return self.load <= 1 - self.longest / self.shortest + TOLERANCE


@dataclass(frozen=True, slots=True)
class PartitionedPlacement:
    """Jobs by increasing period, each on the last opened track, or on a new one where it does not fit.

    A job may be a guest on any track where it would fit as well; if not aggressive, only while no job waits for its
    home there.
    """

    aggressive: bool = False

    def build_lanes(self, profiles: Sequence[JobProfile], tracks: int) -> Iterable[LaneJobs]:
        homes, used = _pack_jobs(profiles)
        if len(used) > tracks:
            raise InfeasibleSchedule(
                f"expected the jobs to fit on {tracks} tracks, found that {len(used)} are needed for all deadlines; "
                "add tracks, or choose proportional tracks, which work with any number"
            )
        free = tuple(range(len(used), tracks))
        lanes: list[LaneJobs] = []
        for job in profiles:
            home = homes[job.name]
            guest = (i for i, track in enumerate(used) if i != home and track.add_job(job).is_feasible)
            lanes.append((TrackLane((home,), free, tuple(guest), polite=not self.aggressive), [job]))
        return lanes


def _pack_jobs(profiles: Sequence[JobProfile]) -> tuple[dict[str, int], list[_TrackLoad]]:
    homes: dict[str, int] = {}
    used: list[_TrackLoad] = []
    for job in sorted(profiles, key=lambda p: (p.period, p.name)):
        if used and used[-1].add_job(job).is_feasible:
            used[-1] = used[-1].add_job(job)
        else:
            used.append(_TrackLoad().add_job(job))
        homes[job.name] = len(used) - 1
    return homes, used
