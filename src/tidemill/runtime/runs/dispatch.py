"""Connects the dispatcher to the catalog: offers it the runnable runs and starts those that get a track.

The catalog owns the queue. Another server may claim a run between the offer and its start; the claim then fails and
nothing happens, because a run cannot be claimed twice. Statistics of flows are read at intervals, not at every tick.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any

from tidemill.errors import ConfigError, InfeasibleSchedule
from tidemill.model.run import Run, RunKind
from tidemill.ports.catalog import FlowQueries
from tidemill.ports.records import FlowStatistics
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.freshness.watermarks import ProgressByFlow, compute_data_time, compute_paces
from tidemill.scheduler.dispatcher import Dispatcher, DispatchLimits
from tidemill.scheduler.hierarchy import PriorityInheritance, build_jobs
from tidemill.scheduler.job import Job, JobProfile, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.scheduler.tracks import PLACEMENTS
from tidemill.scheduler.tracks.lane import TrackPlacement

log = logging.getLogger("tidemill.server")

STATISTICS_INTERVAL = 20.0
"""Seconds between two reads of the flows' statistics."""

DEFAULT_RUN_SECONDS = 1.0
"""Assumed seconds of a run before the first one was measured."""

DEFAULT_PERIOD = 3600.0
"""Assumed seconds between two runs of a flow until there were two."""

PRIORITY_STEP_FACTOR = 1000.0
"""Factor of a flow's weight for each step of its workflow's priority."""


@dataclass(frozen=True, slots=True)
class DispatchConfig:
    """Settings of the dispatcher."""

    policy: str = "max-benefit"
    placement: str = "proportional"
    inheritance: str = "max"
    tracks: int = 2
    backfill_tracks: int = 1  # additional tracks, for backfills only
    catch_up_limit: float = 0.0  # periods of data that one run loads at most; 0: all pending data
    batch_limit: int = 0  # batches, that is, blocks of different times, that one run loads at most; 0: no limit
    patience: float = 10.0  # periods for which a run is ready before it goes first; 0: never

    @property
    def all_tracks(self) -> int:
        return self.tracks + self.backfill_tracks

    def validate_values(self) -> DispatchConfig:
        for label, value, choices in (
            ("policy", self.policy, POLICIES),
            ("placement", self.placement, PLACEMENTS),
            ("inheritance", self.inheritance, tuple(PriorityInheritance)),
        ):
            if value not in choices:
                raise ConfigError(f"expected a {label} among {', '.join(choices)}, found {value!r}")
        if min(self.tracks, self.backfill_tracks) < 1:
            raise ConfigError(f"expected at least one track, found {min(self.tracks, self.backfill_tracks)}")
        for label, limit, unit, none in (
            ("catch-up limit", self.catch_up_limit, "periods", "all pending data"),
            ("batch limit", self.batch_limit, "batches", "all pending data"),
            ("patience", self.patience, "periods", "no limit"),
        ):
            if not 0 <= limit < inf:
                raise ConfigError(f"expected the {label} to be a number of {unit}, or 0 for {none}, found {limit}")
        return self

    @property
    def limits(self) -> DispatchLimits:
        """The limits of the dispatcher; those of a run are applied to its blocks."""
        return DispatchLimits(patience=self.patience or None)

    def apply_overrides(self, overrides: Mapping[str, Any]) -> DispatchConfig:
        """Return this configuration with the given setting overrides applied."""
        return replace(self, **self.select_overrides(overrides)).validate_values()

    def select_overrides(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """Return the overrides that concern dispatching."""
        names = {f.name for f in fields(self)}
        return {name: value for name, value in overrides.items() if name in names}


@dataclass(slots=True)
class DispatchedRun:
    """A run that has a track."""

    run: Run
    track: int
    job: Job
    upto: float  # data time up to which it refreshes its table
    limit: CatchUpLimit | None  # limit of the pending data that it loads; None: no limit
    started_at: float = field(default_factory=time.monotonic)


TrackQuotas = Callable[[], Mapping[str, int]]
"""Returns how many runs of a workflow one server may execute at once now; other workflows are not limited."""


class RunDispatcher:
    """Decides which runnable runs start on this server, and on which track. Thread-safe."""

    def __init__(
        self,
        flows: FlowQueries,
        config: DispatchConfig,
        interval: float = STATISTICS_INTERVAL,
        limit_tracks: TrackQuotas = dict,
    ) -> None:
        self.config = config.validate_values()
        self._limit_tracks = limit_tracks
        self._flows = flows
        self._interval = interval
        self._read_at = float("-inf")
        self._statistics: dict[str, FlowStatistics] = {}  # as of the last read
        self._progress: ProgressByFlow = {}
        self._jobs: dict[str, Job] = {}
        self._runs: dict[str, Run] = {}
        self._backfilled: set[str] = set()  # flows that have had a backfill
        self._dispatcher: Dispatcher | None = None
        self._lock = threading.Lock()

    def start_runs(self, runnable: Sequence[Run], now: float) -> list[DispatchedRun]:
        """Return the runs that start now; they count as running until `finish_run`."""
        with self._lock:
            self._refresh_facts(runnable, now)
            assert self._dispatcher is not None
            self._dispatcher.limit_workflows(self._limit_tracks())
            self._offer_runs(runnable, now)
            started = []
            for job, track, _ in self._dispatcher.dispatch_jobs(now):
                run = self._runs.pop(job.name)
                _, upto = job.batches.pop()
                started.append(DispatchedRun(run, track, job, upto, self._build_catch_up_limit(job)))
            return started

    def finish_run(self, started: DispatchedRun, now: float) -> None:
        """Record the end of a run, successful or not; the catalog reports the remaining work at the next tick.

        A run offered after this one began is another run of the same flow and is not loaded yet.
        """
        with self._lock:
            job, seconds = started.job, time.monotonic() - started.started_at
            job.fresh, job.since = max(job.fresh, started.upto), now
            assert self._dispatcher is not None
            self._dispatcher.mark_finished(job, now, 1, seconds, job.profile.selectivity)

    def change_config(self, config: DispatchConfig, now: float) -> None:
        """Apply another configuration; running work continues unchanged."""
        if config == self.config:
            return
        with self._lock:
            if self._dispatcher is not None and config.policy != self.config.policy:
                self._dispatcher.change_setup(now, order=POLICIES[config.policy]())
            if config.inheritance != self.config.inheritance:
                self._statistics, self._read_at = {}, float("-inf")
            self.config = config
            if self._dispatcher is not None:
                self._arrange_tracks(now)

    def _build_catch_up_limit(self, job: Job) -> CatchUpLimit | None:
        periods, batches = self.config.catch_up_limit, self.config.batch_limit
        is_limited = (periods or batches) and not job.profile.backfill
        return CatchUpLimit(periods, job.profile.period, batches) if is_limited else None

    def _offer_runs(self, runnable: Iterable[Run], now: float) -> None:
        assert self._dispatcher is not None
        for run in runnable:
            job = self._jobs.get(_format_job_name(run))
            if job is None:
                continue
            self._runs[job.name] = run
            self._fill_job(job, run)
            self._dispatcher.mark_ready(job, now)

    def _fill_job(self, job: Job, run: Run) -> None:
        """Give a job its pending work as one batch: from when the run was first due to when it was last requested."""
        due, requested = run.due or run.created, run.requested or run.created
        # data cut off by an earlier catch-up limit is older than the request
        job.fresh = min(job.fresh, self._compute_data_time(job, due))
        job.batches.clear()
        job.add_batch((due, max(self._compute_data_time(job, requested), job.fresh)))

    def _compute_data_time(self, job: Job, timestamp: float) -> float:
        return compute_data_time(self._progress.get(job.name, ()), timestamp)

    def _refresh_facts(self, runnable: Sequence[Run], now: float) -> None:
        """Read the statistics of flows: of new flows at once, of all flows at intervals."""
        is_recent = self._dispatcher is not None and time.monotonic() - self._read_at < self._interval
        if is_recent and {_format_job_name(run) for run in runnable} <= self._jobs.keys():
            return
        statistics = self._read_facts(runnable)
        before, self._statistics, self._progress = self._statistics, statistics, compute_paces(statistics)
        changed = [f for name, f in statistics.items() if f is not before.get(name) and f != before.get(name)]
        new_backfills = {run.subject for run in runnable if run.backfill} - self._backfilled
        self._read_at = time.monotonic()
        weights_changed = before.keys() != statistics.keys() or any(
            _get_weight_factors(f) != _get_weight_factors(before[f.flow]) for f in changed
        )
        if new_backfills or weights_changed or self._dispatcher is None:
            self._backfilled |= new_backfills
            self._rebuild_jobs(list(statistics.values()), now)
            self._arrange_tracks(now)
        elif changed and self._dispatcher.update_profiles(self._build_profiles(changed), now):
            self._arrange_tracks(now)
        for flow in changed:
            if flow.watermark_progress is not None:  # the prediction for its last run may have been wrong
                self._jobs[flow.flow].fresh = flow.watermark_progress.watermark

    def _rebuild_jobs(self, statistics: Sequence[FlowStatistics], now: float) -> None:
        """Rebuild all jobs: flows were added or removed, or a weight changed, which changes inherited weights, too."""
        start_times = {f.flow: f.last_start for f in statistics}
        jobs = self._build_jobs(
            [_build_profile(f) for f in statistics]
            + [_build_backfill_profile(f) for f in statistics if f.flow in self._backfilled]
        )
        for job in jobs:
            old = self._jobs.get(job.name)
            if old is not None:
                old.profile, old.weight = job.profile, job.weight
            else:
                job.since = start_times.get(job.name) or now - job.profile.period
                job.fresh = self._compute_data_time(job, job.since)
        self._jobs = {job.name: self._jobs.get(job.name, job) for job in jobs}

    def _build_profiles(self, changed: Iterable[FlowStatistics]) -> list[JobProfile]:
        """Build the profiles of flows whose duration or period changed."""
        live = [replace(_build_profile(f), parents=self._jobs[f.flow].profile.parents) for f in changed]
        return live + [_build_backfill_profile(f) for f in changed if f.flow in self._backfilled]

    def _read_facts(self, runnable: Iterable[Run]) -> dict[str, FlowStatistics]:
        """Read the statistics of all flows, with defaults for runnable subjects that are not flows."""
        statistics = self._flows.read_statistics()
        others = {run.subject: run for run in runnable if run.subject not in statistics}
        return statistics | {
            name: FlowStatistics(name, 1.0, 0, (), None, workflow=_find_workflow(run))
            for name, run in sorted(others.items())
        }

    def _build_jobs(self, profiles: list[JobProfile]) -> list[Job]:
        try:
            return build_jobs(profiles, PriorityInheritance(self.config.inheritance))
        except ConfigError:  # flows of several tasks may read from each other: then no priority is inherited
            return build_jobs([replace(p, parents=()) for p in profiles])

    def _arrange_tracks(self, now: float) -> None:
        try:
            self._apply_placement(now, PLACEMENTS[self.config.placement])
        except InfeasibleSchedule as error:
            log.warning("%s; short jobs may now use the tracks of long ones instead", error)
            self._apply_placement(now, PLACEMENTS["proportional"])

    def _apply_placement(self, now: float, placement: TrackPlacement) -> None:
        jobs, config = list(self._jobs.values()), self.config
        if self._dispatcher is None:
            policy = POLICIES[config.policy]()
            self._dispatcher = Dispatcher(jobs, policy, placement, config.tracks, config.limits, config.backfill_tracks)
        else:
            self._dispatcher.change_setup(
                now,
                jobs=jobs,
                placement=placement,
                tracks=config.tracks,
                backfill_tracks=config.backfill_tracks,
                limits=config.limits,
            )


def _get_weight_factors(statistics: FlowStatistics) -> tuple[float, int, tuple[str, ...]]:
    """Return the statistics from which a weight is computed."""
    return statistics.priority, statistics.workflow_priority, statistics.parents


def _format_job_name(run: Run) -> str:
    """Return the name of a run's job: a flow's backfill and its live refresh are two jobs."""
    return f"{run.subject}, backfill" if run.backfill else run.subject


def _find_workflow(run: Run) -> str:
    """Return the workflow whose quota counts a run that is not of a flow: that of an action."""
    return run.subject.partition("/")[0] if run.kind is RunKind.ACTION else ""


def _build_backfill_profile(statistics: FlowStatistics) -> JobProfile:
    return replace(_build_profile(statistics), name=f"{statistics.flow}, backfill", parents=(), backfill=True)


def _build_profile(statistics: FlowStatistics) -> JobProfile:
    seconds = statistics.seconds or DEFAULT_RUN_SECONDS
    period = max(statistics.period or DEFAULT_PERIOD, seconds)
    weight = statistics.priority * PRIORITY_STEP_FACTOR ** max(-20, min(20, statistics.workflow_priority))
    selectivity = 1.0 if statistics.selectivity is None else statistics.selectivity
    cost = _build_update_cost(seconds, period, statistics.seconds_per_data_second or 0.0)
    return JobProfile(
        statistics.flow, period, cost, weight, statistics.parents, selectivity, workflow=statistics.workflow
    )


def _build_update_cost(seconds: float, period: float, rate: float) -> UpdateCost:
    """Build the cost of an update; one that loads a period of data takes the usual seconds.

    >>> _build_update_cost(10.0, 60.0, 0.1), _build_update_cost(10.0, 60.0, 1.0).start
    (UpdateCost(start=4.0, rate=0.1), 0.0)
    """
    bounded = min(rate, seconds / period)
    return UpdateCost(seconds - bounded * period, bounded)
