"""Which first, and where? An order and a placement together.

The driver, be it the simulator or the live server, owns what waits: it tells the dispatcher of jobs that are ready and
of runs that have ended, after all that happened in one instant asks once what to start, and starts that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from tidemill.scheduler.job import Job, JobProfile, JobState, index_by_name
from tidemill.scheduler.order import SchedulingPolicy
from tidemill.scheduler.starvation_guard import StarvationGuard
from tidemill.scheduler.track_table import TrackTable, is_misplaced
from tidemill.scheduler.tracks.lane import TrackPlacement

Start = tuple[Job, int, int]
"""Run a job on a track now, and load the first so many of its batches."""


@dataclass(frozen=True, slots=True)
class DispatchLimits:
    """What holds whatever the policy prefers."""

    chop: float | None = None  # periods of data that one run loads at most; None for all that wait
    patience: float | None = 10.0  # periods for which a job is ready before it goes first; None for ever


LIMITS = DispatchLimits()


class Dispatcher:
    """Jobs are never lost, never run twice at once, and load their batches in order."""

    def __init__(
        self,
        jobs: Sequence[Job],
        order: SchedulingPolicy,
        placement: TrackPlacement,
        tracks: int,
        limits: DispatchLimits = LIMITS,
        backfill_tracks: int = 1,
    ) -> None:
        self._jobs = index_by_name(jobs)
        self._order, self._placement, self._limits = order, placement, limits
        self._seats = TrackTable(self._jobs, placement, tracks, backfill_tracks)
        self._guard = StarvationGuard(limits.patience)
        order.set_jobs(jobs)

    def mark_ready(self, job: Job, now: float) -> None:
        """Something waits for a job. May be said as often as one likes, also while the job runs."""
        name = job.name
        if name in self._seats.taken:
            return
        if name not in self._guard.waiting:
            self._guard.start_waiting(job, now)
            self._seats.waiting[job.lane] += 1
        self._order.mark_ready(job, now)

    def mark_finished(self, job: Job, now: float, grain: int, cost: float, selectivity: float = 1.0) -> None:
        """A run has ended, well or not; it loaded so many batches, took so long, and made so many rows for each read.

        What still waits for the job is due again.
        """
        self._seats.release_track(job.name)
        if job.name not in self._jobs:
            return  # it was taken out while it ran
        self._order.mark_finished(job, now, grain, cost, selectivity)
        if job.batches:
            self.mark_ready(job, now)

    def dispatch_jobs(self, now: float) -> list[Start]:
        """What to start now. It counts as started, until `done` is said."""
        started: list[Start] = []
        seats, guard, order, chop = self._seats, self._guard, self._order, self._limits.chop
        while seats.idle and guard.waiting:
            jobs = order.rank_jobs(now) if now < guard.next else chain(guard.list_overdue(now), order.rank_jobs(now))
            found = self._find_placeable(jobs) or self._start_new_round(now)
            if found is None:
                break
            job, track = found
            seats.assign_track(job, track)
            guard.stop_waiting(job)
            grain = order.compute_batch_limit(job, now)
            order.mark_started(job, now)
            started.append((job, track, grain if chop is None else min(grain, job.count_catch_up_batches(chop))))
        return started

    def update_profiles(self, profiles: Sequence[JobProfile], now: float) -> bool:
        """Jobs take longer or shorter than thought, or are due more or less often.

        True if one of them may belong on other tracks by now: then `change` should place all of them anew.
        """
        jobs = [self._jobs[profile.name] for profile in profiles]
        for job, profile in zip(jobs, profiles, strict=True):
            job.profile = profile
        self._rebuild_order(now)
        return any(map(is_misplaced, jobs))

    def change_setup(
        self,
        now: float,
        *,
        jobs: Sequence[Job] | None = None,
        order: SchedulingPolicy | None = None,
        placement: TrackPlacement | None = None,
        tracks: int | None = None,
        backfill_tracks: int | None = None,
    ) -> None:
        """Go on with other jobs, with another policy, or on other tracks. What runs goes on as it is.

        Jobs that are known already are to be the same objects. All are placed anew, by what is known of them now; if
        the placement refuses, nothing has changed.
        """
        kept = self._jobs if jobs is None else index_by_name(jobs)
        place = placement or self._placement
        live = self._seats.tracks if tracks is None else tracks
        behind = self._seats.backfill_tracks if backfill_tracks is None else backfill_tracks
        self._seats.place_jobs(kept, place, live, behind)
        for job in self._guard.list_jobs():
            if job.name not in kept:
                self._order.mark_started(job, now)
                self._guard.stop_waiting(job)
        self._jobs, self._placement, self._order = kept, place, order or self._order
        self._rebuild_order(now)
        for job in self._guard.list_jobs():
            self._seats.waiting[job.lane] += 1

    def list_states(self, now: float) -> dict[str, JobState]:
        """How every job stands."""
        states = dict.fromkeys(self._jobs, JobState.INACTIVE)
        states |= dict.fromkeys(self._guard.waiting, JobState.WAITING)
        states |= {job.name: JobState.ACTIVE for job in self._order.rank_jobs(now)}
        return states | {name: JobState.RUNNING for name in self._seats.taken if name in states}

    def _rebuild_order(self, now: float) -> None:
        """Those who wait, by what is known now."""
        self._order.set_jobs(list(self._jobs.values()))
        for job in self._guard.list_jobs():
            self._order.mark_ready(job, now)

    def _find_placeable(self, jobs: Iterable[Job]) -> tuple[Job, int] | None:
        """The first that can be placed. Jobs of a lane that has no track are passed over."""
        seats = self._seats
        full: list[int] = []
        for job in jobs:
            lane = job.lane
            if lane in full:
                continue
            track = seats.find_idle_track(lane)
            if track is not None:
                return job, track
            full.append(lane)
            if len(full) == seats.count_awaited_lanes():
                break
        return None

    def _start_new_round(self, now: float) -> tuple[Job, int] | None:
        """The same in a new round, if it is time for one."""
        nobody = next(iter(self._order.rank_jobs(now)), None) is None
        return self._find_placeable(self._order.rank_jobs(now)) if nobody and self._order.start_round(now) else None
