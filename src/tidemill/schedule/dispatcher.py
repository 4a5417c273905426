"""Which first, and where? An order and a placement together.

The driver, be it the simulator or the live server, owns what waits: it tells the dispatcher of jobs that are ready and
of runs that have ended, after all that happened in one instant asks once what to start, and starts that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from tidemill.schedule.guard import Guard
from tidemill.schedule.job import Job, by_name
from tidemill.schedule.order import Order
from tidemill.schedule.seats import Seats
from tidemill.schedule.state import State
from tidemill.schedule.tracks.lane import Placement

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
        self._seats = Seats([job.profile for job in jobs], placement, tracks, backfill_tracks)
        self._guard = Guard(limits.patience) if limits.patience is not None else None
        self._waiting: dict[str, Job] = {}
        order.setup(jobs)

    def ready(self, job: Job, now: float) -> None:
        """Something waits for a job. May be said as often as one likes, also while the job runs."""
        name = job.profile.name
        if name in self._seats.taken:
            return
        if name not in self._waiting:
            self._waiting[name] = job
            self._seats.wait(name)
            if self._guard is not None:
                self._guard.ready(job, now)
        self._order.ready(job, now)

    def done(self, job: Job, now: float, grain: int, cost: float, selectivity: float = 1.0) -> None:
        """A run has ended, well or not; it loaded so many batches, took so long, and made so many rows for each read.

        What still waits for the job is due again.
        """
        name = job.profile.name
        self._seats.leave(name)
        if name not in self._jobs:
            return  # it was taken out while it ran
        self._order.done(job, now, grain, cost, selectivity)
        if job.batches:
            self.ready(job, now)

    def dispatch(self, now: float) -> list[Start]:
        """What to start now. It counts as started, until `done` is said."""
        started: list[Start] = []
        while self._waiting and self._seats.idle:
            found = self._next(now)
            if found is None:
                break
            started.append(self._start(found[0], found[1], now))
        return started

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
        self._seats.arrange([j.profile for j in kept.values()], place, live, behind)
        self._forget(self._waiting.keys() - kept.keys(), now)
        self._jobs, self._placement, self._order = kept, place, order or self._order
        self._order.setup(list(kept.values()))
        for job in self._waiting.values():
            self._order.ready(job, now)
            self._seats.wait(job.name)

    def states(self, now: float) -> dict[str, State]:
        """How every job stands."""
        states = dict.fromkeys(self._jobs, State.INACTIVE)
        states |= dict.fromkeys(self._waiting, State.WAITING)
        states |= {job.name: State.ACTIVE for job in self._order.ranked(now)}
        return states | {name: State.RUNNING for name in self._seats.taken if name in states}

    def _next(self, now: float) -> tuple[Job, int] | None:
        """The best job for which there is a track, and the track."""
        order, guard = self._order, self._guard
        jobs = order.ranked(now)
        if guard is not None and guard.next <= now:
            jobs = chain(guard.overdue(now), jobs)
        found = self._first(jobs)
        if found is None and next(iter(order.ranked(now)), None) is None and order.refill(now):
            return self._first(order.ranked(now))
        return found

    def _first(self, jobs: Iterable[Job]) -> tuple[Job, int] | None:
        """The first that can be placed. Jobs of a lane that has no track are passed over."""
        seats = self._seats
        full: set[int] = set()
        for job in jobs:
            lane = seats.lane[job.profile.name]
            if lane in full:
                continue
            track = seats.track(lane)
            if track is not None:
                return job, track
            full.add(lane)
            if len(full) == seats.lanes_waiting:
                break
        return None

    def _start(self, job: Job, track: int, now: float) -> Start:
        name = job.profile.name
        del self._waiting[name]
        self._seats.take(name, track)
        if self._guard is not None:
            self._guard.taken(job)
        grain, chop = self._order.grain(job, now), self._limits.chop
        if chop is not None:
            grain = min(grain, job.chopped(chop))
        self._order.taken(job, now)
        return job, track, grain

    def _forget(self, names: Iterable[str], now: float) -> None:
        for name in names:
            job = self._waiting.pop(name)
            self._order.taken(job, now)
            if self._guard is not None:
                self._guard.taken(job)
