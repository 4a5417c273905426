"""Which first, and where? An order and a placement together.

The driver, be it the simulator or the live server, owns what waits: it tells the dispatcher of jobs that are ready and
of runs that have ended, after all that happened in one instant asks once what to start, and starts that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from tidemill.scheduler.job import Job, Profile, State, by_name
from tidemill.scheduler.order import Order
from tidemill.scheduler.starvation_guard import Guard
from tidemill.scheduler.track_table import Seats, astray
from tidemill.scheduler.tracks.lane import Placement

Start = tuple[Job, int, int]
"""Run a job on a track now, and load the first so many of its batches."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds whatever the policy prefers."""

    chop: float | None = None  # periods of data that one run loads at most; None for all that wait
    patience: float | None = 10.0  # periods for which a job is ready before it goes first; None for ever


LIMITS = Limits()


class Dispatcher:
    """Jobs are never lost, never run twice at once, and load their batches in order."""

    def __init__(
        self,
        jobs: Sequence[Job],
        order: Order,
        placement: Placement,
        tracks: int,
        limits: Limits = LIMITS,
        backfill_tracks: int = 1,
    ) -> None:
        self._jobs = by_name(jobs)
        self._order, self._placement, self._limits = order, placement, limits
        self._seats = Seats(self._jobs, placement, tracks, backfill_tracks)
        self._guard = Guard(limits.patience)
        order.setup(jobs)

    def ready(self, job: Job, now: float) -> None:
        """Something waits for a job. May be said as often as one likes, also while the job runs."""
        name = job.name
        if name in self._seats.taken:
            return
        if name not in self._guard.waiting:
            self._guard.ready(job, now)
            self._seats.waiting[job.lane] += 1
        self._order.ready(job, now)

    def done(self, job: Job, now: float, grain: int, cost: float, selectivity: float = 1.0) -> None:
        """A run has ended, well or not; it loaded so many batches, took so long, and made so many rows for each read.

        What still waits for the job is due again.
        """
        self._seats.leave(job.name)
        if job.name not in self._jobs:
            return  # it was taken out while it ran
        self._order.done(job, now, grain, cost, selectivity)
        if job.batches:
            self.ready(job, now)

    def dispatch(self, now: float) -> list[Start]:
        """What to start now. It counts as started, until `done` is said."""
        started: list[Start] = []
        seats, guard, order, chop = self._seats, self._guard, self._order, self._limits.chop
        while seats.idle and guard.waiting:
            jobs = order.ranked(now) if now < guard.next else chain(guard.overdue(now), order.ranked(now))
            found = self._first(jobs) or self._refilled(now)
            if found is None:
                break
            job, track = found
            seats.take(job, track)
            guard.taken(job)
            grain = order.grain(job, now)
            order.taken(job, now)
            started.append((job, track, grain if chop is None else min(grain, job.chopped(chop))))
        return started

    def learn(self, profiles: Sequence[Profile], now: float) -> bool:
        """Jobs take longer or shorter than thought, or are due more or less often.

        True if one of them may belong on other tracks by now: then `change` should place all of them anew.
        """
        jobs = [self._jobs[profile.name] for profile in profiles]
        for job, profile in zip(jobs, profiles, strict=True):
            job.profile = profile
        self._rank(now)
        return any(map(astray, jobs))

    def change(
        self,
        now: float,
        *,
        jobs: Sequence[Job] | None = None,
        order: Order | None = None,
        placement: Placement | None = None,
        tracks: int | None = None,
        backfill_tracks: int | None = None,
    ) -> None:
        """Go on with other jobs, with another policy, or on other tracks. What runs goes on as it is.

        Jobs that are known already are to be the same objects. All are placed anew, by what is known of them now; if
        the placement refuses, nothing has changed.
        """
        kept = self._jobs if jobs is None else by_name(jobs)
        place = placement or self._placement
        live = self._seats.tracks if tracks is None else tracks
        behind = self._seats.backfill_tracks if backfill_tracks is None else backfill_tracks
        self._seats.arrange(kept, place, live, behind)
        for job in self._guard.jobs():
            if job.name not in kept:
                self._order.taken(job, now)
                self._guard.taken(job)
        self._jobs, self._placement, self._order = kept, place, order or self._order
        self._rank(now)
        for job in self._guard.jobs():
            self._seats.waiting[job.lane] += 1

    def states(self, now: float) -> dict[str, State]:
        """How every job stands."""
        states = dict.fromkeys(self._jobs, State.INACTIVE)
        states |= dict.fromkeys(self._guard.waiting, State.WAITING)
        states |= {job.name: State.ACTIVE for job in self._order.ranked(now)}
        return states | {name: State.RUNNING for name in self._seats.taken if name in states}

    def _rank(self, now: float) -> None:
        """Those who wait, by what is known now."""
        self._order.setup(list(self._jobs.values()))
        for job in self._guard.jobs():
            self._order.ready(job, now)

    def _first(self, jobs: Iterable[Job]) -> tuple[Job, int] | None:
        """The first that can be placed. Jobs of a lane that has no track are passed over."""
        seats = self._seats
        full: list[int] = []
        for job in jobs:
            lane = job.lane
            if lane in full:
                continue
            track = seats.track(lane)
            if track is not None:
                return job, track
            full.append(lane)
            if len(full) == seats.awaited():
                break
        return None

    def _refilled(self, now: float) -> tuple[Job, int] | None:
        """The same in a new round, if it is time for one."""
        nobody = next(iter(self._order.ranked(now)), None) is None
        return self._first(self._order.ranked(now)) if nobody and self._order.refill(now) else None
