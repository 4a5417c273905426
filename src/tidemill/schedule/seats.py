"""Who sits on which track, and who waits for one."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.errors import ConfigError
from tidemill.schedule.job import Profile
from tidemill.schedule.tracks.lane import Lane, Placement


class Seats:
    """The tracks of a dispatcher: those for live jobs, counted from 0, and those for backfills, counted from -1 down.

    Jobs with equal lanes share a number, so that who has found one of them without a track has found all of them so.
    """

    def __init__(self, profiles: Sequence[Profile], placement: Placement, tracks: int, backfill_tracks: int) -> None:
        self.taken: dict[str, int] = {}  # tracks by the jobs that run there
        self.arrange(profiles, placement, tracks, backfill_tracks)

    def arrange(self, profiles: Sequence[Profile], placement: Placement, tracks: int, backfill_tracks: int) -> None:
        """Place all jobs anew. What runs stays where it is; nobody waits until it is said so."""
        if min(tracks, backfill_tracks) < 1:
            least = min(tracks, backfill_tracks)
            raise ConfigError(f"expected at least one track, found {least}; jobs need somewhere to run")
        lanes = _lanes(profiles, placement, tracks, backfill_tracks)
        numbers = {lane: number for number, lane in enumerate(dict.fromkeys(lanes.values()))}
        self.tracks, self.backfill_tracks = tracks, backfill_tracks
        self.lane = {name: numbers[lane] for name, lane in lanes.items()}
        self.lanes_waiting = 0
        self._lanes = list(numbers)
        self._first = [(*lane.home, *lane.free) for lane in self._lanes]
        self._waiting = [0] * len(self._lanes)
        self._all = {track for lane in self._lanes for track in (*lane.home, *lane.free, *lane.guest)}
        self._owners = {t: [n for n, lane in enumerate(self._lanes) if t in lane.home] for t in self._all}
        self.idle = self._all - set(self.taken.values())

    def wait(self, name: str) -> None:
        lane = self.lane[name]
        self._waiting[lane] += 1
        if self._waiting[lane] == 1:
            self.lanes_waiting += 1

    def take(self, name: str, track: int) -> None:
        """A job that waited has a track."""
        lane = self.lane[name]
        self._waiting[lane] -= 1
        if not self._waiting[lane]:
            self.lanes_waiting -= 1
        self.idle.remove(track)
        self.taken[name] = track

    def leave(self, name: str) -> None:
        """A run has ended. A track that has been given up meanwhile is not used again."""
        track = self.taken.pop(name)
        if track in self._all:
            self.idle.add(track)

    def track(self, lane: int) -> int | None:
        """The best idle track for a lane."""
        idle = self.idle
        for track in self._first[lane]:
            if track in idle:
                return track
        found = self._lanes[lane]
        for track in found.guest:
            if track in idle and not (found.polite and self._awaited(track)):
                return track
        return None

    def _awaited(self, track: int) -> bool:
        return any(self._waiting[owner] for owner in self._owners[track])


def _lanes(profiles: Sequence[Profile], placement: Placement, tracks: int, backfill_tracks: int) -> dict[str, Lane]:
    """Backfills have tracks of their own, so that live tables never wait for history."""
    live = [p for p in profiles if not p.backfill]
    lanes = dict(placement.lanes(live, tracks)) if live else {}
    behind = Lane(tuple(range(-1, -1 - backfill_tracks, -1)))
    return lanes | {p.name: behind for p in profiles if p.backfill}
