"""The live driver of the dispatcher: runs that may be claimed are offered, and some of them get a track.

The catalog owns what waits. A run that another server takes meanwhile is started here for nothing: it cannot be claimed
twice. What is known of flows is asked for now and then, not at every look.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any

from tidemill.errors import ConfigError, Infeasible
from tidemill.model.run import Run
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import FlowStatistics
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.freshness.watermarks import Paces, compute_data_time, compute_paces
from tidemill.scheduler.dispatcher import LIMITS, Dispatcher
from tidemill.scheduler.hierarchy import PriorityInheritance, build_jobs
from tidemill.scheduler.job import Job, JobProfile, JobState, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.scheduler.tracks import PLACEMENTS
from tidemill.scheduler.tracks.lane import TrackPlacement

log = logging.getLogger("tidemill.server")

OFTEN = 20.0
"""Seconds between two times that flows are looked at anew."""

UNKNOWN = 1.0
"""Seconds that a run is thought to take before there was one."""

SELDOM = 3600.0
"""Seconds between two runs of a flow, as long as there were fewer than two."""

URGENT = 1000.0
"""How many times more each step of a workflow's priority counts."""


@dataclass(frozen=True, slots=True)
class DispatchConfig:
    """How runs are dispatched, in the words of the settings."""

    policy: str = "max-benefit"
    placement: str = "proportional"
    inheritance: str = "max"
    tracks: int = 2
    backfill_tracks: int = 1  # besides, for backfills alone
    chop: float = 0.0  # periods of data that one run loads at most; 0: all that waits

    @property
    def all_tracks(self) -> int:
        return self.tracks + self.backfill_tracks

    def validate_values(self) -> DispatchConfig:
        for what, word, known in (
            ("policy", self.policy, POLICIES),
            ("placement", self.placement, PLACEMENTS),
            ("inheritance", self.inheritance, tuple(PriorityInheritance)),
        ):
            if word not in known:
                raise ConfigError(f"expected a {what} among {', '.join(known)}, found {word!r}")
        if min(self.tracks, self.backfill_tracks) < 1:
            raise ConfigError(f"expected at least one track, found {min(self.tracks, self.backfill_tracks)}")
        if not 0 <= self.chop < inf:
            raise ConfigError(f"expected chop to be a number of periods, or 0 for all that waits, found {self.chop}")
        return self

    def apply_overrides(self, wished: Mapping[str, Any]) -> DispatchConfig:
        """The same, but for what people wish while it runs."""
        return replace(self, **self.select_overrides(wished)).validate_values()

    def select_overrides(self, wished: Mapping[str, Any]) -> dict[str, Any]:
        """Those wishes that are about dispatching."""
        known = {f.name for f in fields(self)}
        return {name: value for name, value in wished.items() if name in known}


@dataclass(slots=True)
class DispatchedRun:
    """A run that has a track."""

    run: Run
    track: int
    job: Job
    upto: float  # data time that it brings its table up to
    portion: CatchUpLimit | None  # of what waits, that it loads at most; None for all
    at: float = field(default_factory=time.monotonic)


class RunDispatcher:
    """Decides which of the runs that may be claimed begin on this server, and on which track. Safe between threads."""

    def __init__(self, catalog: CatalogReader, way: DispatchConfig, often: float = OFTEN) -> None:
        self.way = way.validate_values()
        self._catalog = catalog
        self._often = often
        self._looked = float("-inf")
        self._known: dict[str, FlowStatistics] = {}  # at the last look
        self._paces: Paces = {}
        self._jobs: dict[str, Job] = {}
        self._runs: dict[str, Run] = {}
        self._backfilled: set[str] = set()  # flows of which a backfill was seen
        self._dispatcher: Dispatcher | None = None
        self._lock = threading.Lock()

    def start_runs(self, runnable: Sequence[Run], now: float) -> list[DispatchedRun]:
        """Those of the runs that begin now; they count as under way until `ended` is said."""
        with self._lock:
            self._refresh_facts(runnable, now)
            assert self._dispatcher is not None
            self._offer_runs(runnable, now)
            started = []
            for job, track, _ in self._dispatcher.dispatch_jobs(now):
                run = self._runs.pop(job.name)
                _, upto = job.batches.pop()
                started.append(DispatchedRun(run, track, job, upto, self._build_catch_up_limit(job)))
            return started

    def finish_run(self, started: DispatchedRun, now: float) -> None:
        """Whatever became of a run: what still waits, the catalog says at the next look.

        What was offered since it began is another run, of the same flow, and is not loaded yet.
        """
        with self._lock:
            job, seconds = started.job, time.monotonic() - started.at
            job.fresh, job.since = max(job.fresh, started.upto), now
            assert self._dispatcher is not None
            self._dispatcher.mark_finished(job, now, 1, seconds, job.profile.selectivity)

    def change_config(self, way: DispatchConfig, now: float) -> None:
        """Go on in another way; what is under way goes on as it is."""
        if way == self.way:
            return
        with self._lock:
            if self._dispatcher is not None and way.policy != self.way.policy:
                self._dispatcher.change_setup(now, order=POLICIES[way.policy]())
            if way.inheritance != self.way.inheritance:
                self._known, self._looked = {}, float("-inf")
            self.way = way
            if self._dispatcher is not None:
                self._arrange_tracks(now)

    def compute_states(self, now: float) -> dict[str, JobState]:
        with self._lock:
            return {} if self._dispatcher is None else self._dispatcher.list_states(now)

    def _build_catch_up_limit(self, job: Job) -> CatchUpLimit | None:
        return CatchUpLimit(self.way.chop, job.profile.period) if self.way.chop and not job.profile.backfill else None

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
        """What waits for a job is one batch: from when the run was first due to when it was last asked for."""
        due, asked = run.due or run.created, run.asked or run.created
        job.fresh = min(
            job.fresh, self._compute_data_time(job, due)
        )  # what was chopped off is older than what was asked for
        job.batches.clear()
        job.add_batch((due, max(self._compute_data_time(job, asked), job.fresh)))

    def _compute_data_time(self, job: Job, moment: float) -> float:
        return compute_data_time(self._paces.get(job.name, ()), moment)

    def _refresh_facts(self, runnable: Sequence[Run], now: float) -> None:
        """Learn of flows: of new ones at once, of all now and then."""
        fresh = time.monotonic() - self._looked < self._often
        if self._dispatcher is not None and fresh and {_format_job_name(run) for run in runnable} <= self._jobs.keys():
            return
        known = self._read_facts(runnable)
        before, self._known, self._paces = self._known, known, compute_paces(known)
        changed = [f for name, f in known.items() if f is not before.get(name) and f != before.get(name)]
        newly = {run.subject for run in runnable if run.backfill} - self._backfilled
        self._looked = time.monotonic()
        others = before.keys() != known.keys() or any(
            _get_weight_factors(f) != _get_weight_factors(before[f.flow]) for f in changed
        )
        if newly or others or self._dispatcher is None:
            self._backfilled |= newly
            self._rebuild_jobs(list(known.values()), now)
            self._arrange_tracks(now)
        elif changed and self._dispatcher.update_profiles(self._build_profiles(changed), now):
            self._arrange_tracks(now)
        for facts in changed:
            if facts.pace is not None:  # what was thought of its last run may have been wrong
                self._jobs[facts.flow].fresh = facts.pace.edge

    def _rebuild_jobs(self, known: Sequence[FlowStatistics], now: float) -> None:
        """There are other flows, or they count for more or less: so may those that they are made of."""
        begun = {f.flow: f.began for f in known}
        jobs = self._build_jobs(
            [_build_profile(f) for f in known]
            + [_build_backfill_profile(f) for f in known if f.flow in self._backfilled]
        )
        for job in jobs:
            old = self._jobs.get(job.name)
            if old is not None:
                old.profile, old.weight = job.profile, job.weight
            else:
                job.since = begun.get(job.name) or now - job.profile.period
                job.fresh = self._compute_data_time(job, job.since)
        self._jobs = {job.name: self._jobs.get(job.name, job) for job in jobs}

    def _build_profiles(self, changed: Iterable[FlowStatistics]) -> list[JobProfile]:
        """Of flows whose runs took longer or shorter, or were due more or less often."""
        live = [replace(_build_profile(f), parents=self._jobs[f.flow].profile.parents) for f in changed]
        return live + [_build_backfill_profile(f) for f in changed if f.flow in self._backfilled]

    def _read_facts(self, runnable: Iterable[Run]) -> dict[str, FlowStatistics]:
        """What is known of all flows, and of what may run and is none."""
        known = self._catalog.read_flow_statistics()
        others = {run.subject for run in runnable if run.subject not in known}
        return known | {name: FlowStatistics(name, 1.0, 0, (), None) for name in sorted(others)}

    def _build_jobs(self, profiles: list[JobProfile]) -> list[Job]:
        try:
            return build_jobs(profiles, PriorityInheritance(self.way.inheritance))
        except ConfigError:  # flows of several tasks may read of each other: then nobody inherits
            return build_jobs([replace(p, parents=()) for p in profiles])

    def _arrange_tracks(self, now: float) -> None:
        try:
            self._apply_placement(now, PLACEMENTS[self.way.placement])
        except Infeasible as error:
            log.warning("%s; short jobs may now use the tracks of long ones instead", error)
            self._apply_placement(now, PLACEMENTS["proportional"])

    def _apply_placement(self, now: float, placement: TrackPlacement) -> None:
        jobs, way = list(self._jobs.values()), self.way
        if self._dispatcher is None:
            policy = POLICIES[way.policy]()
            self._dispatcher = Dispatcher(jobs, policy, placement, way.tracks, LIMITS, way.backfill_tracks)
        else:
            self._dispatcher.change_setup(
                now, jobs=jobs, placement=placement, tracks=way.tracks, backfill_tracks=way.backfill_tracks
            )


def _get_weight_factors(known: FlowStatistics) -> tuple[float, int, tuple[str, ...]]:
    """What weights are made of."""
    return known.priority, known.urgency, known.parents


def _format_job_name(run: Run) -> str:
    """Of the job that a run is for: loading history and keeping fresh are two."""
    return f"{run.subject}, backfill" if run.backfill else run.subject


def _build_backfill_profile(known: FlowStatistics) -> JobProfile:
    return replace(_build_profile(known), name=f"{known.flow}, backfill", parents=(), backfill=True)


def _build_profile(known: FlowStatistics) -> JobProfile:
    seconds = known.seconds or UNKNOWN
    period = max(known.period or SELDOM, seconds)
    weight = known.priority * URGENT ** max(-20, min(20, known.urgency))
    selectivity = 1.0 if known.selectivity is None else known.selectivity
    return JobProfile(known.flow, period, UpdateCost(seconds, 0.0), weight, known.parents, selectivity)
