"""Who sits on which track, and who waits for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.errors import ConfigError
from tidemill.scheduler.job import Job, JobProfile
from tidemill.scheduler.tracks.lane import Shared, TrackLane, TrackPlacement

SLACK = 1.25
"""How many times longer or shorter than thought a job or its period may be, and stay where it is."""


class TrackTable:
    """The tracks of a dispatcher: those for live jobs, counted from 0, and those for backfills, counted from -1 down.

    Jobs with equal lanes share a number, so that who has found one of them without a track has found all of them so.
    """

    def __init__(self, jobs: Mapping[str, Job], placement: TrackPlacement, tracks: int, backfill_tracks: int) -> None:
        self.taken: dict[str, int] = {}  # tracks by the jobs that run there
        self.place_jobs(jobs, placement, tracks, backfill_tracks)

    def place_jobs(self, jobs: Mapping[str, Job], placement: TrackPlacement, tracks: int, backfill_tracks: int) -> None:
        """Place all jobs anew. What runs stays where it is; nobody waits until it is said so."""
        if min(tracks, backfill_tracks) < 1:
            least = min(tracks, backfill_tracks)
            raise ConfigError(f"expected at least one track, found {least}; jobs need somewhere to run")
        shared = _build_lanes([job.profile for job in jobs.values()], placement, tracks, backfill_tracks)
        numbers: dict[TrackLane, int] = {}
        for lane, profiles in shared:
            number = numbers.setdefault(lane, len(numbers))
            for profile in profiles:
                job = jobs[profile.name]
                job.lane, job.placed = number, profile
        self.tracks, self.backfill_tracks = tracks, backfill_tracks
        self._lanes = list(numbers)
        self._first = [(*lane.home, *lane.free) for lane in self._lanes]
        self.waiting = [0] * len(self._lanes)  # jobs, by lane
        self._all = {track for lane in self._lanes for track in (*lane.home, *lane.free, *lane.guest)}
        self._owners = {t: [n for n, lane in enumerate(self._lanes) if t in lane.home] for t in self._all}
        self.idle = self._all - set(self.taken.values())

    def assign_track(self, job: Job, track: int) -> None:
        """A job that waited has a track."""
        self.waiting[job.lane] -= 1
        self.idle.remove(track)
        self.taken[job.name] = track

    def release_track(self, name: str) -> None:
        """A run has ended. A track that has been given up meanwhile is not used again."""
        track = self.taken.pop(name)
        if track in self._all:
            self.idle.add(track)

    def count_awaited_lanes(self) -> int:
        """Lanes for which somebody waits."""
        return sum(map(bool, self.waiting))

    def find_idle_track(self, lane: int) -> int | None:
        """The best idle track for a lane."""
        idle = self.idle
        for track in self._first[lane]:
            if track in idle:
                return track
        found = self._lanes[lane]
        for track in found.guest:
            if track in idle and not (found.polite and self._is_awaited(track)):
                return track
        return None

    def _is_awaited(self, track: int) -> bool:
        return any(self.waiting[owner] for owner in self._owners[track])


def is_misplaced(job: Job) -> bool:
    """By what is known now, the job may belong elsewhere."""
    now, then = job.profile, job.placed
    return not (_is_similar(now.usual, then.usual) and _is_similar(now.period, then.period))


def _is_similar(one: float, other: float) -> bool:
    return one <= SLACK * other and other <= SLACK * one


def _build_lanes(
    profiles: Sequence[JobProfile], placement: TrackPlacement, tracks: int, backfill_tracks: int
) -> list[Shared]:
    """Backfills have tracks of their own, so that live tables never wait for history."""
    live = [p for p in profiles if not p.backfill]
    behind = [p for p in profiles if p.backfill]
    shared = list(placement.build_lanes(live, tracks)) if live else []
    return [*shared, (TrackLane(tuple(range(-1, -1 - backfill_tracks, -1))), behind)] if behind else shared
