"""The dispatcher: combines a scheduling policy with a track placement, within the quotas of workflows.

The driver, which is the simulator or the live server, owns the queue: it reports ready jobs and finished runs to the
dispatcher, asks once after all events of one instant which jobs to start, and starts them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from tidemill.scheduler.job import Job, JobProfile, index_by_name
from tidemill.scheduler.order import SchedulingPolicy
from tidemill.scheduler.starvation_guard import StarvationGuard
from tidemill.scheduler.track_table import TrackTable, is_misplaced
from tidemill.scheduler.tracks.lane import TrackPlacement

Start = tuple[Job, int, int]
"""A job to start on a track now, and the number of its first batches to load."""


@dataclass(frozen=True, slots=True)
class DispatchLimits:
    """Limits that hold for every policy."""

    catch_up_periods: float | None = None  # periods of data that one run loads at most; None: no limit
    patience: float | None = 10.0  # periods for which a job is ready before it goes first; None: no limit
    batch_limit: int | None = None  # batches that one run loads at most; None: no limit

    def count_batches(self, job: Job) -> int:
        """Return how many of a job's first batches one run may load; at least one."""
        count = len(job.batches) if self.batch_limit is None else min(self.batch_limit, len(job.batches))
        return count if self.catch_up_periods is None else min(count, job.count_catch_up_batches(self.catch_up_periods))


LIMITS = DispatchLimits()


class Dispatcher:
    """Dispatches jobs: none is lost, none runs twice at once, and each loads its batches in order."""

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
        self._track_table = TrackTable(self._jobs, placement, tracks, backfill_tracks)
        self._guard = StarvationGuard(limits.patience)
        self._quotas: Mapping[str, int] = {}  # tracks that the jobs of a workflow may use at once
        self._workflows: dict[str, str] = {}  # of the running jobs, by name
        order.set_jobs(jobs)

    def limit_workflows(self, quotas: Mapping[str, int]) -> None:
        """Limit how many jobs of these workflows run at once, now and later; running jobs continue."""
        self._quotas = quotas

    def mark_ready(self, job: Job, now: float) -> None:
        """Mark a job with pending data as ready. Idempotent, and has no effect while the job runs."""
        name = job.name
        if name in self._track_table.running:
            return
        if name not in self._guard.waiting:
            self._guard.start_waiting(job, now)
            self._track_table.waiting[job.lane] += 1
        self._order.mark_ready(job, now)

    def mark_finished(self, job: Job, now: float, batches: int, cost: float, selectivity: float = 1.0) -> None:
        """Record the end of a run, successful or not; if data is still pending, the job is ready again."""
        self._track_table.release_track(job.name)
        self._workflows.pop(job.name, None)
        if job.name not in self._jobs:
            return  # it was removed while it ran
        self._order.mark_finished(job, now, batches, cost, selectivity)
        if job.batches:
            self.mark_ready(job, now)

    def dispatch_jobs(self, now: float) -> list[Start]:
        """Return the jobs to start now. They count as running until `mark_finished`."""
        started: list[Start] = []
        table, guard, order = self._track_table, self._guard, self._order
        while table.idle and guard.waiting:
            jobs = order.rank_jobs(now)
            if now >= guard.next_alarm:
                jobs = chain(guard.list_overdue(now), jobs)
            placed = self._find_placeable(jobs) or self._start_new_round(now)
            if placed is None:
                break
            job, track = placed
            table.assign_track(job, track)
            self._workflows[job.name] = job.profile.workflow
            guard.stop_waiting(job)
            batches = min(order.compute_batch_limit(job, now), self._limits.count_batches(job))
            order.mark_started(job, now)
            started.append((job, track, batches))
        return started

    def update_profiles(self, profiles: Sequence[JobProfile], now: float) -> bool:
        """Replace the profiles of jobs; True if one may belong on other tracks, which `change_setup` assigns."""
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
        limits: DispatchLimits | None = None,
    ) -> None:
        """Change the jobs, the policy, the tracks, or the limits. Running jobs continue unchanged.

        Jobs that are known already must be the same objects. All jobs are placed again, by their current profiles; if
        the placement is infeasible, nothing has changed.
        """
        all_jobs = self._jobs if jobs is None else index_by_name(jobs)
        new_placement = placement or self._placement
        live_count = self._track_table.tracks if tracks is None else tracks
        backfill_count = self._track_table.backfill_tracks if backfill_tracks is None else backfill_tracks
        self._track_table.place_jobs(all_jobs, new_placement, live_count, backfill_count)
        for job in self._guard.list_jobs():
            if job.name not in all_jobs:
                self._order.mark_started(job, now)
                self._guard.stop_waiting(job)
        self._jobs, self._placement, self._order = all_jobs, new_placement, order or self._order
        if limits is not None:
            self._limits = limits
            self._guard.set_patience(limits.patience)
        self._rebuild_order(now)
        for job in self._guard.list_jobs():
            self._track_table.waiting[job.lane] += 1

    def _rebuild_order(self, now: float) -> None:
        """Rank the waiting jobs again, by their current profiles."""
        self._order.set_jobs(list(self._jobs.values()))
        for job in self._guard.list_jobs():
            self._order.mark_ready(job, now)

    def _find_placeable(self, jobs: Iterable[Job]) -> tuple[Job, int] | None:
        """Return the first job that can be placed. Jobs of a lane or a workflow without an idle track are skipped."""
        table, used_up = self._track_table, self._find_used_up_quotas()
        full: list[int] = []
        for job in jobs:
            lane = job.lane
            if lane in full or job.profile.workflow in used_up:
                continue
            track = table.find_idle_track(lane)
            if track is not None:
                return job, track
            full.append(lane)
            if len(full) == sum(map(bool, table.waiting)):  # lanes with waiting jobs
                break
        return None

    def _find_used_up_quotas(self) -> set[str]:
        """Return the workflows that have as many running jobs as they may have."""
        running = Counter(self._workflows.values()) if self._quotas else Counter[str]()
        return {workflow for workflow, tracks in self._quotas.items() if running[workflow] >= tracks}

    def _start_new_round(self, now: float) -> tuple[Job, int] | None:
        """Return the first placeable job of a new round, if the current one is over."""
        is_over = next(iter(self._order.rank_jobs(now)), None) is None
        return self._find_placeable(self._order.rank_jobs(now)) if is_over and self._order.start_round(now) else None
