"""The track table: which job runs on which track, and how many wait."""

from collections.abc import Mapping

from tidemill.errors import ConfigError
from tidemill.scheduler.job import Job
from tidemill.scheduler.tracks.lane import TrackLane, TrackPlacement

SLACK = 1.25
"""Factor by which a job's cost or period may change before the job is placed again."""


class TrackTable:
    """The tracks of a dispatcher: those for live jobs, numbered from 0, and those for backfills, numbered from -1 down.

    Jobs with equal lanes share a lane number, so one failed search for a track counts for all of them.
    """

    def __init__(self, jobs: Mapping[str, Job], placement: TrackPlacement, tracks: int, backfill_tracks: int) -> None:
        self.running: dict[str, int] = {}  # tracks of the running jobs
        self.place_jobs(jobs, placement, tracks, backfill_tracks)

    def place_jobs(self, jobs: Mapping[str, Job], placement: TrackPlacement, tracks: int, backfill_tracks: int) -> None:
        """Place all jobs. Running jobs stay where they are; the counts of waiting jobs are reset."""
        if min(tracks, backfill_tracks) < 1:
            fewest = min(tracks, backfill_tracks)
            raise ConfigError(f"expected at least one track, found {fewest}; set the number of tracks to 1 or more")
        live = [job.profile for job in jobs.values() if not job.profile.backfill]
        backfills = [job.profile for job in jobs.values() if job.profile.backfill]
        lanes = list(placement.build_lanes(live, tracks)) if live else []
        if backfills:  # on separate tracks, so that live tables never wait for them
            lanes.append((TrackLane(tuple(range(-1, -1 - backfill_tracks, -1))), backfills))
        numbers: dict[TrackLane, int] = {}
        for lane, profiles in lanes:
            number = numbers.setdefault(lane, len(numbers))
            for profile in profiles:
                job = jobs[profile.name]
                job.lane, job.placed = number, profile
        self.tracks, self.backfill_tracks = tracks, backfill_tracks
        self._lanes = list(numbers)
        self._preferred = [(*lane.home, *lane.free) for lane in self._lanes]
        self.waiting = [0] * len(self._lanes)  # jobs, by lane
        self._all = {track for lane in self._lanes for track in (*lane.home, *lane.free, *lane.guest)}
        self._owners = {t: [n for n, lane in enumerate(self._lanes) if t in lane.home] for t in self._all}
        self.idle = self._all - set(self.running.values())

    def assign_track(self, job: Job, track: int) -> None:
        self.waiting[job.lane] -= 1
        self.idle.remove(track)
        self.running[job.name] = track

    def release_track(self, name: str) -> None:
        """Release the track of a finished run. A track that was removed meanwhile is not reused."""
        track = self.running.pop(name)
        if track in self._all:
            self.idle.add(track)

    def find_idle_track(self, lane: int) -> int | None:
        idle = self.idle
        for track in self._preferred[lane]:
            if track in idle:
                return track
        track_lane = self._lanes[lane]
        for track in track_lane.guest:
            is_awaited = track_lane.polite and any(self.waiting[owner] for owner in self._owners[track])
            if track in idle and not is_awaited:
                return track
        return None


def is_misplaced(job: Job) -> bool:
    """Tell whether the job's profile changed so much that it may belong elsewhere."""
    now, then = job.profile, job.placed
    return not (_is_similar(now.usual_cost, then.usual_cost) and _is_similar(now.period, then.period))


def _is_similar(value: float, other: float) -> bool:
    return value <= SLACK * other and other <= SLACK * value
